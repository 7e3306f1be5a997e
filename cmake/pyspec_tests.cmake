# Test programs. tests/native sees the inside of the core; tests/capi is strict C11 over the installed header only.

set(PYSPEC_TEST_DIR "${CMAKE_BINARY_DIR}/tests")

file(GLOB native_tests CONFIGURE_DEPENDS tests/native/*.cpp)
foreach(source IN LISTS native_tests)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(native_${name} "${source}")
    target_link_libraries(native_${name} PRIVATE pyspec_objects)
    pyspec_compile_settings(native_${name})
    set_target_properties(native_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PYSPEC_TEST_DIR}/native")
endforeach()

# layout.c is generated from all headers, so that a new struct in the header cannot be forgotten.
set(layout "${CMAKE_BINARY_DIR}/generated/layout.c")
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/generated")
add_custom_command(
    OUTPUT "${layout}"
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/tests/capi/make_layout.py"
        "${layout}" ${headers}
    DEPENDS ${headers} tests/capi/make_layout.py
    VERBATIM)

file(GLOB capi_tests CONFIGURE_DEPENDS tests/capi/*.c)
list(APPEND capi_tests "${layout}")
foreach(source IN LISTS capi_tests)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(capi_${name} "${source}")
    target_link_libraries(capi_${name} PRIVATE pyspec Threads::Threads)
    target_compile_options(capi_${name} PRIVATE -Wall -Wextra -Wpedantic -Werror)
    set_target_properties(capi_${name} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PYSPEC_TEST_DIR}/capi")
endforeach()
