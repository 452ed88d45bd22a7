//go:build !purego

#include "textflag.h"

// Each function equals the Go loop in its declaration's comment, bit for bit:
// multiplications and additions round on their own. n is a multiple of 8.

#define BEGIN \
	MOVQ n+24(FP), CX; \
	MOVQ z+0(FP), DI; \
	MOVQ x+8(FP), SI; \
	MOVQ y+16(FP), DX

// func addAVX2(z, x, y *float32, n int)
TEXT ·addAVX2(SB), NOSPLIT, $0-32
	BEGIN
	SUBQ $32, CX
	JL   rest
wide:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3
	VADDPS (DX), Y0, Y0
	VADDPS 32(DX), Y1, Y1
	VADDPS 64(DX), Y2, Y2
	VADDPS 96(DX), Y3, Y3
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DX
	ADDQ $128, DI
	SUBQ $32, CX
	JGE  wide
rest:
	ADDQ $32, CX
	JZ   done
narrow:
	VMOVUPS (SI), Y0
	VADDPS (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  narrow
done:
	VZEROUPPER
	RET

// func addLanesAVX2(acc *[64]float32, x *float32, n int)
TEXT ·addLanesAVX2(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7
row:
	VADDPS (SI), Y0, Y0
	VADDPS 32(SI), Y1, Y1
	VADDPS 64(SI), Y2, Y2
	VADDPS 96(SI), Y3, Y3
	VADDPS 128(SI), Y4, Y4
	VADDPS 160(SI), Y5, Y5
	VADDPS 192(SI), Y6, Y6
	VADDPS 224(SI), Y7, Y7
	ADDQ $256, SI
	SUBQ $64, CX
	JNZ  row
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	VZEROUPPER
	RET

// func mulAVX2(z, x, y *float32, n int)
TEXT ·mulAVX2(SB), NOSPLIT, $0-32
	BEGIN
loop:
	VMOVUPS (SI), Y0
	VMULPS (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func scaleAVX2(z, x, y *float32, n int)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-32
	BEGIN
	VBROADCASTSS (DX), Y1
loop:
	VMULPS (SI), Y1, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func descendAVX2(z, x, y *float32, n int)
TEXT ·descendAVX2(SB), NOSPLIT, $0-32
	BEGIN
	VBROADCASTSS (DX), Y2
loop:
	VMULPS (SI), Y2, Y1
	VMOVUPS (DI), Y0
	VSUBPS Y1, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func reluAVX2(z, x, y *float32, n int)
TEXT ·reluAVX2(SB), NOSPLIT, $0-32
	BEGIN
	VXORPS Y1, Y1, Y1
loop:
	VADDPS (SI), Y1, Y0 // -0 becomes +0
	VMAXPS Y0, Y1, Y0   // a NaN stays
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func reluGradAVX2(z, x, y *float32, n int)
TEXT ·reluGradAVX2(SB), NOSPLIT, $0-32
	BEGIN
	VXORPS Y1, Y1, Y1
loop:
	VCMPPS $4, (DX), Y1, Y0 // not equal, or a NaN
	VANDPS (SI), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET
