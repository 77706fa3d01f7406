/* What the files of the program of tail calls share. */
#define STEP __attribute__((noinline, noclone))

#ifdef __cplusplus
extern "C" {
#endif
extern volatile int sink;
int hold(int n);
int other_file(int n);
int library_entry(int n);
int library_back(int n);
#ifdef __cplusplus
}
#endif
