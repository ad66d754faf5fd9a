package controllertest

import "syscall"

// attributes let a process die with the test that started it, also if it is paused then and cannot
// see its input end.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
