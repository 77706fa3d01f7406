package fixup

import "os"

// keepTimes gives the file at path the times in info. To the owner of a core
// they tell when the process died.
func keepTimes(path string, info os.FileInfo, res *Result) {
	if err := os.Chtimes(path, accessTime(info), info.ModTime()); err != nil {
		res.warn("the times of the core were not kept: %v", err)
	}
}
