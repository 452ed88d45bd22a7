//go:build amd64 && !noasm && !gccgo && !safe

package kernel

// gonumRounds says that gonum's loops are its assembly, which rounds each
// product and each sum.
const gonumRounds = true
