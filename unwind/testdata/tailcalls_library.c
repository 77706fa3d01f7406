/* A library that jumps inside itself and back into the program. */
#include "tailcalls.h"

static STEP int library_inside(int n)
{
	sink++;
	return hold(n + 1);
}

static STEP int library_wait(int n)
{
	return library_inside(n) + sink;
}

STEP int library_entry(int n)
{
	sink++;
	return library_wait(n + 1);
}

STEP int library_back(int n)
{
	sink++;
	return library_inside(n + 2);
}
