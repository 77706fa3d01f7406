/* A module with a thread-local variable value_NAME, which tlsmodules.c loads and
   unloads.

   -DNAME=…      what makes its name unlike those of the other modules
   -DINITIAL=n   its initial value; without, the module's storage is all .tbss
   -DBYTES=n     more thread-local bytes, in front of it
   -DALIGN=n     its alignment
   -DAUDIT       makes the module one for LD_AUDIT as well

   The TLS model is the compiler's flag: -ftls-model=initial-exec for static
   storage, -mtls-dialect=gnu2 for descriptors (TLSDESC). */
#include <stdint.h>

#ifndef ALIGN
#define ALIGN 8
#endif

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define VALUE JOIN(value_, NAME)

#ifdef BYTES
__thread char JOIN(bytes_, NAME)[BYTES];
#endif

#ifdef INITIAL
__thread uint64_t VALUE __attribute__((aligned(ALIGN))) = INITIAL;
const uint64_t plug_initial = INITIAL;
#else
__thread uint64_t VALUE __attribute__((aligned(ALIGN)));
const uint64_t plug_initial = 0;
#endif

/* The calling thread's, which gets its block by this, where it has none. */
uint64_t *plug_value(void)
{
	return &VALUE;
}

#ifdef AUDIT
unsigned int la_version(unsigned int version)
{
	*plug_value() = version;
	return version;
}
#endif
