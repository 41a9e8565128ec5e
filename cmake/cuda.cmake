# libglyd_gpu: the kernels of src/cuda, with the CUDA runtime linked in. Spills are errors.
set(CMAKE_CUDA_COMPILER ${NVCC})
set(CMAKE_CUDA_ARCHITECTURES OFF)
enable_language(CUDA)

set(GLYD_CUDA_FLAGS -lineinfo -diag-suppress=177 -Xptxas=--warn-on-spills,-Werror -Xcompiler=-Wall,-Wextra)
foreach(arch ${GLYD_CUDA_ARCHS})
    list(APPEND GLYD_CUDA_FLAGS "SHELL:-gencode arch=compute_${arch},code=sm_${arch}")
endforeach()

file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS src/cuda/*.cu)
add_library(glyd_gpu_objects OBJECT ${CUDA_SOURCES})
set_target_properties(glyd_gpu_objects PROPERTIES CUDA_STANDARD 17 CUDA_VISIBILITY_PRESET hidden)
target_include_directories(glyd_gpu_objects PUBLIC include src)
target_compile_options(glyd_gpu_objects PRIVATE ${GLYD_CUDA_FLAGS})

# The host side (checks, configs) is plain C: tests without a GPU link it from libglyd.
file(GLOB CUDA_HOST_SOURCES CONFIGURE_DEPENDS src/cuda/*.c)
add_library(glyd_gpu SHARED $<TARGET_OBJECTS:glyd_gpu_objects> ${CUDA_HOST_SOURCES}
    src/base/error.c src/codec/prefix.c)
target_link_libraries(glyd_gpu PRIVATE glyd_flags CUDA::cudart_static ${CMAKE_DL_LIBS})
set_target_properties(glyd_gpu PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)

# Programs for a machine with a GPU: built with everything else, run by tools/check_gpu.sh or by hand.
add_library(glyd_gpu_static STATIC $<TARGET_OBJECTS:glyd_gpu_objects>)
target_include_directories(glyd_gpu_static PUBLIC include src)
target_link_libraries(glyd_gpu_static PUBLIC glyd_static CUDA::cudart_static ${CMAKE_DL_LIBS})
file(GLOB GPU_PROGRAMS CONFIGURE_DEPENDS bench/gpu/*.cu tests/gpu/*.cu)
foreach(file ${GPU_PROGRAMS})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} ${file})
    set_target_properties(${name} PROPERTIES CUDA_STANDARD 17)
    target_compile_options(${name} PRIVATE ${GLYD_CUDA_FLAGS})
    target_link_libraries(${name} PRIVATE glyd_gpu_static)
endforeach()

if(EXISTS ${CMAKE_SOURCE_DIR}/examples/gpu_product.c)
    add_executable(gpu_product examples/gpu_product.c)
    target_link_libraries(gpu_product PRIVATE glyd_flags glyd glyd_gpu CUDA::cudart_static)
endif()
