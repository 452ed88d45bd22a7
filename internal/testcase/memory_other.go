//go:build !linux || heap

package testcase

const hasGuards = false

func guarded(int64, bool) ([]byte, func()) { panic("unreachable") }

func protect([]byte) {}
