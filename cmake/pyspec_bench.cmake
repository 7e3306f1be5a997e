# The program of tools/bench that measures kernels by themselves. Like tests/native it sees the inside of the core.

file(GLOB bench_sources CONFIGURE_DEPENDS tools/bench/native/*.cpp)
add_executable(bench_kernels ${bench_sources})
target_link_libraries(bench_kernels PRIVATE pyspec_objects)
pyspec_compile_settings(bench_kernels)
set_target_properties(bench_kernels PROPERTIES OUTPUT_NAME kernels RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
