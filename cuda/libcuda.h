#ifndef ISOBIT_LIBCUDA_H
#define ISOBIT_LIBCUDA_H

// Opens libcuda.so.1 and starts it; 0 on failure, with a sentence in why.
int isobit_cuda_open(char *why, unsigned long size);

// Sets which calls this thread may make while a stream captures a graph
// (CUstreamCaptureMode), and returns what was set.
int isobit_cuda_capture_mode(int mode);

#endif
