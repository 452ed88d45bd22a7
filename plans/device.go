package plans

// selectDevice picks a row of a device other than the CPU.
func selectDevice(_ Stream, pl *plan) (Plan, error) {
	return nil, errorf(DeviceError, pl.problem.op.name, "device", "is %s; this build has no CUDA rows", pl.problem.device)
}
