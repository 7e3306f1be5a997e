# Compiles ggml as static libraries that are linked into libpyspec. EXCLUDE_FROM_ALL also drops its install rules.

function(pyspec_ggml_setting name value)
    set(${name} ${value} CACHE INTERNAL "set by pyspec")
endfunction()

pyspec_ggml_setting(BUILD_SHARED_LIBS   OFF)
pyspec_ggml_setting(GGML_BACKEND_DL     OFF)
pyspec_ggml_setting(GGML_BUILD_TESTS    OFF)
pyspec_ggml_setting(GGML_BUILD_EXAMPLES OFF)
pyspec_ggml_setting(GGML_ALL_WARNINGS   OFF)
pyspec_ggml_setting(GGML_CCACHE         OFF)
# One pool of our own instead of OpenMP's; the other three change the order of additions with the number of rows.
pyspec_ggml_setting(GGML_OPENMP         OFF)
pyspec_ggml_setting(GGML_LLAMAFILE      OFF)
pyspec_ggml_setting(GGML_CPU_REPACK     OFF)
pyspec_ggml_setting(GGML_BLAS           OFF)

if(PYSPEC_CUDA)
    pyspec_ggml_setting(GGML_CUDA ON)
else()
    pyspec_ggml_setting(GGML_CUDA OFF)
endif()

if(PYSPEC_PORTABLE)
    pyspec_ggml_setting(GGML_NATIVE OFF)
    pyspec_ggml_setting(GGML_SSE42 ON)
    foreach(set AVX AVX2 AVX_VNNI AVX512 AVX512_VBMI AVX512_VNNI AVX512_BF16 FMA F16C BMI2 AMX_TILE AMX_INT8 AMX_BF16)
        pyspec_ggml_setting(GGML_${set} OFF)
    endforeach()
else()
    pyspec_ggml_setting(GGML_NATIVE ON)
endif()

add_subdirectory("${PYSPEC_GGML_SOURCE}" "${CMAKE_BINARY_DIR}/ggml" EXCLUDE_FROM_ALL)

if(NOT PYSPEC_PORTABLE)
    target_compile_options(ggml-cpu PRIVATE ${PYSPEC_ARCH_FLAGS}) # after ggml's own -march=native
endif()

# Its headers are not ours to warn about.
foreach(target ggml ggml-base ggml-cpu)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    set_property(TARGET ${target} PROPERTY INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${directories}")
endforeach()
