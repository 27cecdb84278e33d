package sandbox

import "golang.org/x/sys/unix"

// arch is the processor's name in the kernel's filters.
const arch = unix.AUDIT_ARCH_AARCH64

// deniedHere are system calls that other processors do not have.
var deniedHere = []uint32{unix.SYS_KEXEC_FILE_LOAD}
