# Where ggml's sources come from. First of:
#   1. -DPYSPEC_GGML_DIR=<tree>
#   2. third_party/ggml, which our source distribution carries and a git checkout does not
#   3. the pinned source archive of the package ggml-python, fetched once through pip into the user's cache
#
# Sets PYSPEC_GGML_SOURCE (the tree) and PYSPEC_GGML_VERSION ("0.15.3").

set(PYSPEC_GGML_ARCHIVE_VERSION 0.0.45)
set(PYSPEC_GGML_ARCHIVE         ggml_python-${PYSPEC_GGML_ARCHIVE_VERSION}.tar.gz)
set(PYSPEC_GGML_SHA256          10aac52075cf3c7ef2b00d6c35b1c23f7b018dbeff8ae8df67339b4be1166f05)
set(PYSPEC_GGML_BUNDLED         "${CMAKE_CURRENT_SOURCE_DIR}/third_party/ggml")

function(pyspec_user_cache_dir out)
    if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
        set(base "$ENV{XDG_CACHE_HOME}")
    elseif(NOT "$ENV{HOME}" STREQUAL "")
        set(base "$ENV{HOME}/.cache")
    else()
        set(base "${CMAKE_BINARY_DIR}/cache")
    endif()
    set(${out} "${base}/pyspec/sources" PARENT_SCOPE)
endfunction()

# Fetch the archive with pip into `dir`. pip asks an archive for its metadata, which runs the archive's own build backend;
# scikit-build-core is at hand in our build environment, so the first try needs nothing else from an index.
function(pyspec_fetch_ggml_archive dir)
    if(NOT Python_Interpreter_FOUND)
        message(FATAL_ERROR "pyspec: fetching ggml needs Python with pip; or give a ggml tree with -DPYSPEC_GGML_DIR=<tree>.")
    endif()
    message(STATUS "pyspec: fetching ${PYSPEC_GGML_ARCHIVE} with pip (once; kept in the user's cache)")
    set(download "${Python_EXECUTABLE}" -m pip download --quiet --disable-pip-version-check --no-deps
        --no-binary ggml-python --dest "${dir}" ggml-python==${PYSPEC_GGML_ARCHIVE_VERSION})
    execute_process(COMMAND ${download} --no-build-isolation RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
        execute_process(COMMAND ${download} RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
    endif()
    if(failed OR NOT EXISTS "${dir}/${PYSPEC_GGML_ARCHIVE}")
        message(FATAL_ERROR "pyspec: could not fetch ggml (ggml-python ${PYSPEC_GGML_ARCHIVE_VERSION}) with pip. "
            "Give a ggml tree with -DPYSPEC_GGML_DIR=<tree>, or build from pyspec's source distribution, which contains it. "
            "pip said:\n${text}")
    endif()
endfunction()

function(pyspec_unpack_ggml out)
    set(tree "${CMAKE_BINARY_DIR}/ggml-source/ggml_python-${PYSPEC_GGML_ARCHIVE_VERSION}/vendor/ggml")
    set(stamp "${CMAKE_BINARY_DIR}/ggml-source/unpacked-${PYSPEC_GGML_SHA256}")
    set(${out} "${tree}" PARENT_SCOPE)
    if(EXISTS "${stamp}")
        return()
    endif()

    pyspec_user_cache_dir(cache)
    set(archive "${cache}/${PYSPEC_GGML_ARCHIVE}")
    if(EXISTS "${archive}")
        file(SHA256 "${archive}" hash)
        if(NOT hash STREQUAL PYSPEC_GGML_SHA256)
            message(STATUS "pyspec: ${archive} is damaged, fetching it again")
            file(REMOVE "${archive}")
        endif()
    endif()
    if(NOT EXISTS "${archive}")
        # Fetched beside the build and moved, so that two builds at once never read half a file.
        set(fetched "${CMAKE_BINARY_DIR}/ggml-download")
        file(MAKE_DIRECTORY "${fetched}" "${cache}")
        pyspec_fetch_ggml_archive("${fetched}")
        file(SHA256 "${fetched}/${PYSPEC_GGML_ARCHIVE}" hash)
        if(NOT hash STREQUAL PYSPEC_GGML_SHA256)
            message(FATAL_ERROR "pyspec: ${PYSPEC_GGML_ARCHIVE} has SHA-256 ${hash}, expected ${PYSPEC_GGML_SHA256}; it is not used.")
        endif()
        string(RANDOM LENGTH 8 suffix)
        file(COPY_FILE "${fetched}/${PYSPEC_GGML_ARCHIVE}" "${archive}.${suffix}")
        file(RENAME "${archive}.${suffix}" "${archive}")
        file(REMOVE_RECURSE "${fetched}")
    endif()

    file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${CMAKE_BINARY_DIR}/ggml-source" PATTERNS "*/vendor/ggml/*")
    file(WRITE "${stamp}" "")
endfunction()

# Copies what the CPU and CUDA builds need, with the licence; the other backends would triple our archive.
function(pyspec_copy_ggml_for_sdist)
    if(PYSPEC_GGML_SOURCE STREQUAL PYSPEC_GGML_BUNDLED)
        return()
    endif()
    file(REMOVE_RECURSE "${PYSPEC_GGML_BUNDLED}")
    file(COPY "${PYSPEC_GGML_SOURCE}/include" "${PYSPEC_GGML_SOURCE}/src" "${PYSPEC_GGML_SOURCE}/cmake"
        "${PYSPEC_GGML_SOURCE}/CMakeLists.txt" "${PYSPEC_GGML_SOURCE}/LICENSE" "${PYSPEC_GGML_SOURCE}/AUTHORS"
        "${PYSPEC_GGML_SOURCE}/ggml.pc.in"
        DESTINATION "${PYSPEC_GGML_BUNDLED}")
    file(GLOB backends LIST_DIRECTORIES true "${PYSPEC_GGML_BUNDLED}/src/ggml-*")
    foreach(backend IN LISTS backends)
        get_filename_component(name "${backend}" NAME)
        if(IS_DIRECTORY "${backend}" AND NOT name MATCHES "^ggml-(cpu|cuda)$")
            file(REMOVE_RECURSE "${backend}")
        endif()
    endforeach()
endfunction()

if(PYSPEC_GGML_DIR)
    set(PYSPEC_GGML_SOURCE "${PYSPEC_GGML_DIR}")
elseif(EXISTS "${PYSPEC_GGML_BUNDLED}/CMakeLists.txt")
    set(PYSPEC_GGML_SOURCE "${PYSPEC_GGML_BUNDLED}")
else()
    pyspec_unpack_ggml(PYSPEC_GGML_SOURCE)
endif()
if(NOT EXISTS "${PYSPEC_GGML_SOURCE}/include/ggml.h")
    message(FATAL_ERROR "pyspec: ${PYSPEC_GGML_SOURCE} is not a ggml source tree (no include/ggml.h).")
endif()

set(PYSPEC_GGML_VERSION "")
foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${PYSPEC_GGML_SOURCE}/CMakeLists.txt" line REGEX "^set\\(GGML_VERSION_${part} ")
    string(REGEX REPLACE "[^0-9]" "" number "${line}")
    list(APPEND PYSPEC_GGML_VERSION "${number}")
endforeach()
list(JOIN PYSPEC_GGML_VERSION "." PYSPEC_GGML_VERSION)
message(STATUS "pyspec: ggml ${PYSPEC_GGML_VERSION} from ${PYSPEC_GGML_SOURCE}")
