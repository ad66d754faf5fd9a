//go:build unix && !linux

package controllertest

import "syscall"

// attributes are none: a process that is paused when the test is killed has to be ended by hand.
func attributes() *syscall.SysProcAttr { return nil }
