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
if(NOT GLYD_PYTHON) # a wheel holds no links
    set_target_properties(glyd_gpu PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
endif()
