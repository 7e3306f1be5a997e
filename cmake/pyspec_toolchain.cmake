# Compilers, their minimum versions, and the flags of our own code.

# CMake's own message for a missing compiler is several paragraphs long; people need one line.
set(PYSPEC_COMPILER_HINT "pyspec needs a C and a C++20 compiler, GCC 11 or newer or Clang 14 or newer (for example: apt install g++)")
function(pyspec_require_compiler language env_name)
    if(CMAKE_${language}_COMPILER)
        return()
    endif()
    if(NOT "$ENV{${env_name}}" STREQUAL "")
        separate_arguments(words UNIX_COMMAND "$ENV{${env_name}}")
        list(GET words 0 candidates)
    else()
        set(candidates ${ARGN})
    endif()
    find_program(PYSPEC_FOUND_${language}_COMPILER NAMES ${candidates})
    mark_as_advanced(PYSPEC_FOUND_${language}_COMPILER)
    if(NOT PYSPEC_FOUND_${language}_COMPILER)
        list(JOIN candidates ", " tried)
        message(FATAL_ERROR "${PYSPEC_COMPILER_HINT}; none of these was found: ${tried}.")
    endif()
endfunction()
pyspec_require_compiler(CXX CXX c++ g++ clang++)
pyspec_require_compiler(C CC cc gcc clang)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
enable_language(C)
enable_language(CXX)

if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14))
    message(FATAL_ERROR "${PYSPEC_COMPILER_HINT}; ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}.")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    if(PYSPEC_PORTABLE)
        set(PYSPEC_ARCH_FLAGS -march=x86-64-v2)
    else()
        set(PYSPEC_ARCH_FLAGS -march=native)
        # ggml adds up half-precision products in half precision where AVX512-FP16 exists: less exact than elsewhere, and slow
        # for heads of 64, which fall into its scalar remainder. AMX is never used here and not available in every virtual
        # machine whose processor has it.
        include(CheckCXXCompilerFlag)
        foreach(set avx512fp16 amx-tile amx-int8 amx-bf16)
            string(MAKE_C_IDENTIFIER "PYSPEC_COMPILER_KNOWS_${set}" knows)
            check_cxx_compiler_flag(-mno-${set} ${knows})
            if(${knows})
                list(APPEND PYSPEC_ARCH_FLAGS -mno-${set})
            endif()
        endforeach()
    endif()
elseif(PYSPEC_PORTABLE)
    message(FATAL_ERROR "pyspec: PYSPEC_PORTABLE is defined for x86-64 only, this machine is ${CMAKE_SYSTEM_PROCESSOR}.")
else()
    set(PYSPEC_ARCH_FLAGS "")
endif()

# ggml is compiled with them too: its memory errors are ours, and without its atomics nothing it hands from thread to
# thread would look ordered. Reports of undefined behaviour are only useful in our own code.
string(TOUPPER "${PYSPEC_SANITIZE}" PYSPEC_SANITIZER)
if(PYSPEC_SANITIZER STREQUAL "THREAD")
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -g)
    add_link_options(-fsanitize=thread)
elseif(PYSPEC_SANITIZER MATCHES "^(ON|TRUE|YES|Y|1)$")
    add_compile_options(-fsanitize=address -fno-omit-frame-pointer -g)
    add_link_options(-fsanitize=address,undefined)
elseif(PYSPEC_SANITIZER)
    message(FATAL_ERROR "pyspec: PYSPEC_SANITIZE is '${PYSPEC_SANITIZE}', expected OFF, ON (address and undefined behaviour) or "
        "thread.")
endif()

if(PYSPEC_CUDA)
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
        message(FATAL_ERROR "pyspec: PYSPEC_CUDA=ON needs the CUDA toolkit, and nvcc was not found on PATH; install the toolkit, "
            "or name it with CUDACXX=<path of nvcc>, or build without -DPYSPEC_CUDA=ON for the CPU.")
    endif()
    find_package(CUDAToolkit QUIET)
    if(NOT CUDAToolkit_FOUND)
        message(FATAL_ERROR "pyspec: PYSPEC_CUDA=ON found ${CMAKE_CUDA_COMPILER} but no CUDA headers and libraries beside it; "
            "set CUDAToolkit_ROOT to the toolkit's folder.")
    endif()
    foreach(part cudart cublas)
        if(NOT TARGET CUDA::${part})
            message(FATAL_ERROR "pyspec: PYSPEC_CUDA=ON found the CUDA toolkit ${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR} without "
                "its library ${part}; install the complete toolkit, or set CUDAToolkit_ROOT to one that has it.")
        endif()
    endforeach()
endif()

# Flags of pyspec's own targets. Contraction into FMA is never left to the compiler: it would choose differently for
# different loop shapes, and results must not depend on how many rows are computed together.
function(pyspec_compile_settings target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -ffp-contract=off ${PYSPEC_ARCH_FLAGS})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        # False alarms of GCC 12 in its own headers: AVX-512 intrinsics (GCC bug 105593), strings (105651).
        target_compile_options(${target} PRIVATE -Wno-uninitialized -Wno-maybe-uninitialized -Wno-restrict)
    endif()
    if(PYSPEC_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(PYSPEC_SANITIZE AND NOT PYSPEC_SANITIZER STREQUAL "THREAD")
        target_compile_options(${target} PRIVATE -fsanitize=undefined -fno-sanitize-recover=undefined)
    endif()
endfunction()

# Kernels are compiled for their own instruction set whatever the rest is built for, and chosen when a model is loaded.
function(pyspec_kernel_settings)
    if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
        return()
    endif()
    set(avx512_vnni -march=x86-64-v4 -mavx512vnni)
    set(avx2_vnni   -march=x86-64-v3 -mavxvnni)
    set(avx2        -march=x86-64-v3)
    foreach(set avx512_vnni avx2_vnni avx2)
        set_source_files_properties(
            "csrc/kernels/panel_tile_${set}.cpp" "csrc/kernels/float_tile_${set}.cpp"
            "csrc/kernels/vector_routines_${set}.cpp" "tools/bench/native/roofline_${set}.cpp"
            PROPERTIES COMPILE_OPTIONS "${${set}}")
    endforeach()
endfunction()
