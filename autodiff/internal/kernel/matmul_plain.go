//go:build !(amd64 && !noasm && !gccgo && !safe)

package kernel

const gonumRounds = false
