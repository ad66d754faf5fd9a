//go:build unix && !linux

package pgstore

import "syscall"

// attributes let a server run as somebody else. It outlives a test binary that is killed.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}
