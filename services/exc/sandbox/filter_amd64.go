package sandbox

import "golang.org/x/sys/unix"

// arch is the processor's name in the kernel's filters.
const arch = unix.AUDIT_ARCH_X86_64

// deniedHere are system calls that other processors do not have.
var deniedHere = []uint32{unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_KEXEC_FILE_LOAD}
