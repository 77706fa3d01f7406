package module

// Config says where to look for files.
type Config struct {
	// Exe is the program's file.
	Exe string
	// LibDirs are folders that are searched by file name, then by build-id.
	// Their subfolders are not searched, except .build-id.
	LibDirs []string
	// Sysroots are folders that hold a file system like that of the process.
	Sysroots []string
	// PathMap replaces prefixes of recorded paths.
	PathMap []PathMapping
	// NoHostFiles keeps Load from looking at recorded paths and at
	// /usr/lib/debug on this machine.
	NoHostFiles bool
	// Remote, if set, is asked last for a file with a build-id (in hexadecimal
	// digits), of the kind "executable" or "debuginfo", and gives its path on
	// this machine. Its errors mean that there is none.
	Remote func(buildID, kind string) (path string, err error)
}

// PathMapping replaces the prefix From of a path, as recorded in the core, by
// To. A prefix ends where a component of the path does.
type PathMapping struct{ From, To string }
