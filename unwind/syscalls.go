package unwind

import "debug/elf"

// blockingCall is a system call that threads wait in.
type blockingCall struct {
	// name is the kernel's, label what the thread is said to do.
	name, label string
	// numbers are those of x86_64, i386, the generic table (aarch64, riscv64),
	// arm, ppc64 and s390x, −1 for none (arch/*/entry/syscalls/*.tbl).
	numbers [6]int16
}

var blockingCalls = []blockingCall{
	{"futex", "futex wait", [6]int16{202, 240, 98, 240, 221, 238}},
	{"futex_time64", "futex wait", [6]int16{-1, 422, -1, 422, -1, -1}},
	{"futex_waitv", "futex wait", [6]int16{449, 449, 449, 449, 449, 449}},
	{"futex_wait", "futex wait", [6]int16{455, 455, 455, 455, 455, 455}},
	{"epoll_wait", "epoll_wait", [6]int16{232, 256, -1, 252, 238, 251}},
	{"epoll_pwait", "epoll_wait", [6]int16{281, 319, 22, 346, 303, 312}},
	{"epoll_pwait2", "epoll_wait", [6]int16{441, 441, 441, 441, 441, 441}},
	{"poll", "poll", [6]int16{7, 168, -1, 168, 167, 168}},
	{"ppoll", "poll", [6]int16{271, 309, 73, 336, 281, 302}},
	{"ppoll_time64", "poll", [6]int16{-1, 414, -1, 414, -1, -1}},
	{"select", "select", [6]int16{23, 82, -1, -1, 82, 142}},
	{"_newselect", "select", [6]int16{-1, 142, -1, 142, 142, -1}},
	{"pselect6", "select", [6]int16{270, 308, 72, 335, 280, 301}},
	{"pselect6_time64", "select", [6]int16{-1, 413, -1, 413, -1, -1}},
	{"read", "read", [6]int16{0, 3, 63, 3, 3, 3}},
	{"readv", "read", [6]int16{19, 145, 65, 145, 145, 145}},
	{"pread64", "read", [6]int16{17, 180, 67, 180, 179, 180}},
	{"write", "write", [6]int16{1, 4, 64, 4, 4, 4}},
	{"writev", "write", [6]int16{20, 146, 66, 146, 146, 146}},
	{"pwrite64", "write", [6]int16{18, 181, 68, 181, 180, 181}},
	{"accept", "accept", [6]int16{43, -1, 202, 285, 330, -1}},
	{"accept4", "accept", [6]int16{288, 364, 242, 366, 344, 364}},
	{"connect", "connect", [6]int16{42, 362, 203, 283, 328, 362}},
	{"recvfrom", "recv", [6]int16{45, 371, 207, 292, 337, 371}},
	{"recvmsg", "recv", [6]int16{47, 372, 212, 297, 342, 372}},
	{"recvmmsg", "recv", [6]int16{299, 337, 243, 365, 343, 357}},
	{"sendto", "send", [6]int16{44, 369, 206, 290, 335, 369}},
	{"sendmsg", "send", [6]int16{46, 370, 211, 296, 341, 370}},
	{"nanosleep", "sleep", [6]int16{35, 162, 101, 162, 162, 162}},
	{"clock_nanosleep", "sleep", [6]int16{230, 267, 115, 265, 248, 262}},
	{"clock_nanosleep_time64", "sleep", [6]int16{-1, 407, -1, 407, -1, -1}},
	{"wait4", "wait for a child", [6]int16{61, 114, 260, 114, 114, 114}},
	{"waitid", "wait for a child", [6]int16{247, 284, 95, 280, 272, 281}},
	{"waitpid", "wait for a child", [6]int16{-1, 7, -1, -1, 7, -1}},
	{"vfork", "vfork", [6]int16{58, 190, -1, 190, 189, 190}},
	{"pause", "pause", [6]int16{34, 29, -1, 29, 29, 29}},
	{"rt_sigsuspend", "sigsuspend", [6]int16{130, 179, 133, 179, 178, 179}},
	{"rt_sigtimedwait", "sigwait", [6]int16{128, 177, 137, 177, 176, 177}},
	{"rt_sigtimedwait_time64", "sigwait", [6]int16{-1, 421, -1, 421, -1, -1}},
	{"fcntl", "fcntl", [6]int16{72, 55, 25, 55, 55, 55}},
	{"fcntl64", "fcntl", [6]int16{-1, 221, -1, 221, -1, -1}},
	{"flock", "flock", [6]int16{73, 143, 32, 143, 143, 143}},
	{"fsync", "fsync", [6]int16{74, 118, 82, 118, 118, 118}},
	{"fdatasync", "fsync", [6]int16{75, 148, 83, 148, 148, 148}},
	{"openat", "open", [6]int16{257, 295, 56, 322, 286, 288}},
	{"ioctl", "ioctl", [6]int16{16, 54, 29, 54, 54, 54}},
	{"io_getevents", "io_getevents", [6]int16{208, 247, 4, 245, 229, 245}},
	{"io_uring_enter", "io_uring_enter", [6]int16{426, 426, 426, 426, 426, 426}},
	{"msgrcv", "msgrcv", [6]int16{70, 401, 188, 302, 401, 401}},
	{"semop", "semop", [6]int16{65, -1, 193, 298, -1, -1}},
	{"semtimedop", "semop", [6]int16{220, -1, 192, 312, 392, 392}},
	{"mq_timedreceive", "mq_timedreceive", [6]int16{243, 280, 183, 277, 265, 274}},
	{"mq_timedsend", "mq_timedsend", [6]int16{242, 279, 182, 276, 264, 273}},
	{"restart_syscall", "restart_syscall", [6]int16{219, 0, 128, 0, 0, 7}},
	{"clone", "clone", [6]int16{56, 120, 220, 120, 120, 120}},
}

// numberColumn is the column of an architecture in the table, −1 for none.
func numberColumn(m elf.Machine) int {
	switch m {
	case elf.EM_X86_64:
		return 0
	case elf.EM_386:
		return 1
	case elf.EM_AARCH64, elf.EM_RISCV:
		return 2
	case elf.EM_ARM:
		return 3
	case elf.EM_PPC64:
		return 4
	case elf.EM_S390:
		return 5
	}
	return -1
}
