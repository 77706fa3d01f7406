/* Another file of the program, which is left to and leaves. */
#include "tailcalls.h"

static STEP int inside(int n)
{
	sink++;
	return hold(n + 1);
}

STEP int other_file(int n)
{
	sink++;
	return inside(n + 1);
}
