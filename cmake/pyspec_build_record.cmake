# The build record: what the library was compiled for, from the compiler's own macros. Compiled into the library
# (pyspec_build_info) and written beside it, so that Python can compare it with the CPU before loading the library.
#
# Sets PYSPEC_GENERATED_DIR (include "generated/build_info.h") and PYSPEC_NATIVE_DIR (the folder that becomes pyspec/_native).

set(PYSPEC_GENERATED_DIR "${CMAKE_BINARY_DIR}/include")
set(PYSPEC_NATIVE_DIR    "${CMAKE_BINARY_DIR}/native")

execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} ${PYSPEC_ARCH_FLAGS} -dM -E -x c++ /dev/null
    OUTPUT_VARIABLE macros RESULT_VARIABLE failed ERROR_VARIABLE errors)
if(failed)
    message(FATAL_ERROR "pyspec: ${CMAKE_CXX_COMPILER} ${PYSPEC_ARCH_FLAGS} does not work: ${errors}")
endif()

# Compiler macro, and the name of the same set in the flags line of /proc/cpuinfo. These are the sets that a compiler may
# use without being asked by an intrinsic, and those that ggml has intrinsics for.
set(instruction_sets
    SSE3:pni SSSE3:ssse3 SSE4_1:sse4_1 SSE4_2:sse4_2 POPCNT:popcnt MOVBE:movbe LZCNT:abm BMI:bmi1 BMI2:bmi2 ADX:adx
    AVX:avx AVX2:avx2 FMA:fma F16C:f16c GFNI:gfni AVXVNNI:avx_vnni
    AVX512F:avx512f AVX512CD:avx512cd AVX512BW:avx512bw AVX512DQ:avx512dq AVX512VL:avx512vl AVX512IFMA:avx512ifma
    AVX512VBMI:avx512vbmi AVX512VBMI2:avx512_vbmi2 AVX512VNNI:avx512_vnni AVX512BITALG:avx512_bitalg
    AVX512VPOPCNTDQ:avx512_vpopcntdq AVX512BF16:avx512_bf16 AVX512FP16:avx512_fp16
    AMX_TILE:amx_tile AMX_INT8:amx_int8 AMX_BF16:amx_bf16)
set(found "")
foreach(pair IN LISTS instruction_sets)
    string(REPLACE ":" ";" pair "${pair}")
    list(GET pair 0 macro)
    list(GET pair 1 flag)
    if(macros MATCHES "#define __${macro}__ ")
        list(APPEND found "\"${flag}\"")
    endif()
endforeach()
list(JOIN found ", " instruction_sets_json)

set(backends_json "\"cpu\"")
if(PYSPEC_CUDA)
    string(APPEND backends_json ", \"cuda\"")
endif()
foreach(name PORTABLE SANITIZE)
    if(PYSPEC_${name})
        set(${name}_json true)
    else()
        set(${name}_json false)
    endif()
endforeach()

string(CONCAT PYSPEC_BUILD_INFO_JSON
    "{\"version\": \"${PYSPEC_VERSION}\", "
    "\"ggml\": \"${PYSPEC_GGML_VERSION}\", "
    "\"compiler\": \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\", "
    "\"build_type\": \"${CMAKE_BUILD_TYPE}\", "
    "\"system\": \"${CMAKE_SYSTEM_NAME}\", "
    "\"processor\": \"${CMAKE_SYSTEM_PROCESSOR}\", "
    "\"portable\": ${PORTABLE_json}, "
    "\"sanitize\": ${SANITIZE_json}, "
    "\"backends\": [${backends_json}], "
    "\"instruction_sets\": [${instruction_sets_json}]}")

string(REPLACE "\"" "\\\"" PYSPEC_BUILD_INFO_C "${PYSPEC_BUILD_INFO_JSON}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/build_info.h.in" "${PYSPEC_GENERATED_DIR}/generated/build_info.h" @ONLY)
file(CONFIGURE OUTPUT "${PYSPEC_NATIVE_DIR}/build_info.json" CONTENT "@PYSPEC_BUILD_INFO_JSON@\n" @ONLY)
