/* Prints the descriptors of a core's notes as the C headers lay them out, and
   what was put into them, a line each:

       note NAME TYPE HEX
       value NAME HEX

   for the x86 that it is compiled for. */
#include <asm/ldt.h>
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/user.h>

static void note(const char *name, unsigned type, const void *desc, size_t size)
{
	const unsigned char *byte = desc;
	printf("note %s %x ", name, type);
	for (size_t i = 0; i < size; i++)
		printf("%02x", byte[i]);
	printf("\n");
}

/* The fields of struct user_regs_struct. */
#ifdef __x86_64__
#define REGISTERS(X)                                                           \
	X(rax) X(rbx) X(rcx) X(rdx) X(rsi) X(rdi) X(rbp) X(rsp)                \
	X(r8) X(r9) X(r10) X(r11) X(r12) X(r13) X(r14) X(r15)                  \
	X(rip) X(eflags) X(orig_rax) X(fs_base) X(gs_base)                     \
	X(cs) X(ss) X(ds) X(es) X(fs) X(gs)
#define GS gs
#else
#define REGISTERS(X)                                                           \
	X(eax) X(ebx) X(ecx) X(edx) X(esi) X(edi) X(ebp) X(esp)                \
	X(eip) X(eflags) X(orig_eax) X(xcs) X(xss) X(xds) X(xes) X(xfs) X(xgs)
#define GS xgs
#endif

int main(void)
{
	struct user_regs_struct regs;
	unsigned long value = (unsigned long)0xf1e2d3c4b5a69788;
#define FILL(field)                                                            \
	value += 0x101, regs.field = value;                                    \
	printf("value %s %lx\n", #field, value);
	REGISTERS(FILL)
	_Static_assert(sizeof regs == sizeof(elf_gregset_t), "struct user_regs_struct is pr_reg");
	struct elf_prstatus status = {.pr_cursig = 11, .pr_pid = 4711, .pr_ppid = 1, .pr_fpvalid = 1};
	status.pr_info.si_signo = 7; /* unlike pr_cursig, so that each is told apart */
	memcpy(&status.pr_reg, &regs, sizeof regs);
	note("CORE", NT_PRSTATUS, &status, sizeof status);

	struct user_desc tls[3] = {
		{.entry_number = 12, .base_addr = 0x0bad0bad},
		{.entry_number = 13, .base_addr = 0x0bad0bad},
	};
	tls[2].entry_number = (regs.GS & 0xffff) >> 3; /* as a selector says it */
	tls[2].base_addr = 0x7a7b7c7d;
	note("LINUX", NT_386_TLS, tls, sizeof tls);

	struct elf_prpsinfo process = {.pr_pid = 4242, .pr_ppid = 4243, .pr_uid = 0x1111, .pr_gid = 0x2222, .pr_pgrp = 3, .pr_sid = 4, .pr_flag = 5};
	memcpy(process.pr_fname, "victim", 7);
	memcpy(process.pr_psargs, "victim --now", 13);
	note("CORE", NT_PRPSINFO, &process, sizeof process);

	siginfo_t fault = {.si_signo = SIGSEGV, .si_errno = 9, .si_code = SEGV_ACCERR};
	fault.si_addr = (void *)0x51525354;
	note("CORE", NT_SIGINFO, &fault, sizeof fault);
	siginfo_t sent = {.si_signo = SIGQUIT, .si_errno = 9, .si_code = SI_QUEUE};
	sent.si_pid = 4244;
	note("CORE", NT_SIGINFO, &sent, sizeof sent);
	return 0;
}
