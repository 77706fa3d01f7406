/* A library for plugins.c. Code of the model initial-exec has its thread-locals
   at one place beside every thread's descriptor, even in a library that is
   loaded late. */
__thread int plugin_int __attribute__((tls_model("initial-exec"))) = 5;

int *plugin_variable(void)
{
	return &plugin_int;
}
