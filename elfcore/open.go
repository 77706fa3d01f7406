package elfcore

import (
	"fmt"
	"os"
)

// Open reads the core in a file. Close the core to release the file.
func Open(path string, opts ...Option) (*Core, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	c, err := New(f, st.Size(), opts...)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.closer = f
	return c, nil
}
