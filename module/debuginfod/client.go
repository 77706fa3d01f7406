// Package debuginfod finds executables and debug files by their build-id on
// debuginfod servers, and keeps them in the cache that elfutils, gdb and others
// share (https://sourceware.org/elfutils/Debuginfod.html).
//
// It is apart from package module so that only those who want it pay for an HTTP
// client. What it brings is proved by package module like any other file.
package debuginfod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Kinds of files that a server has.
const (
	Executable = "executable"
	DebugInfo  = "debuginfo"
)

// ErrNotFound says that no server has the file.
var ErrNotFound = errors.New("no debuginfod server has it")

// Client asks servers. It is safe for concurrent use.
type Client struct {
	// URLs are the servers, in the order in which they are asked.
	URLs []string
	// Cache is the folder of files that were fetched before.
	Cache string
	// Timeout bounds the wait for the first byte of an answer, MaxSize the size
	// of a file in bytes (0 for no bound), MaxTime the time for all of it (0
	// for no bound).
	Timeout time.Duration
	MaxSize int64
	MaxTime time.Duration
	// Progress, if set, is called while a file arrives, with the bytes so far
	// and their total (0 if not known).
	Progress func(done, total int64)
}

// FromEnvironment makes a client from DEBUGINFOD_URLS and its kin, as elfutils
// reads them (debuginfod-client-config(7)); nil where DEBUGINFOD_URLS is empty.
func FromEnvironment() (*Client, error) {
	urls := strings.Fields(os.Getenv("DEBUGINFOD_URLS"))
	if len(urls) == 0 {
		return nil, nil
	}
	c := &Client{URLs: urls, Timeout: 90 * time.Second}
	for _, v := range []struct {
		name string
		set  func(n int64)
	}{
		{"DEBUGINFOD_TIMEOUT", func(n int64) { c.Timeout = time.Duration(n) * time.Second }},
		{"DEBUGINFOD_MAXSIZE", func(n int64) { c.MaxSize = n }},
		{"DEBUGINFOD_MAXTIME", func(n int64) { c.MaxTime = time.Duration(n) * time.Second }},
	} {
		text := os.Getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s is %q, not a number", v.name, text)
		}
		v.set(n)
	}
	var err error
	c.Cache, err = cacheFolder()
	return c, err
}

// cacheFolder is where elfutils' client keeps files: DEBUGINFOD_CACHE_PATH, the
// old place if it exists, else under the user's cache folder.
func cacheFolder() (string, error) {
	if dir := os.Getenv("DEBUGINFOD_CACHE_PATH"); dir != "" {
		return dir, nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		old := filepath.Join(home, ".debuginfod_client_cache")
		if st, err := os.Stat(old); err == nil && st.IsDir() {
			return old, nil
		}
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder to keep files of debuginfod in; set DEBUGINFOD_CACHE_PATH: %w", err)
	}
	return filepath.Join(dir, "debuginfod_client"), nil
}

// Find gives the path of a file: from the cache, else from the first server that
// has it. The build-id is in hexadecimal digits, kind is Executable or DebugInfo.
// The error wraps ErrNotFound where no server has it.
func (c *Client) Find(ctx context.Context, buildID, kind string) (string, error) {
	if buildID == "" || strings.Trim(buildID, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is no build-id", buildID)
	}
	path := filepath.Join(c.Cache, buildID, kind)
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		if st.Size() == 0 {
			// elfutils notes so that servers were asked in vain.
			return "", fmt.Errorf("%s of %s: %w", kind, buildID, ErrNotFound)
		}
		return path, nil
	}
	var failed []error
	for _, server := range c.URLs {
		err := c.fetch(ctx, server, buildID, kind, path)
		switch {
		case err == nil:
			return path, nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case !errors.Is(err, ErrNotFound):
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return "", errors.Join(failed...)
	}
	return "", fmt.Errorf("%s of %s: %w", kind, buildID, ErrNotFound)
}

// fetch brings one file from one server into the cache. It appears there whole
// or not at all.
func (c *Client) fetch(ctx context.Context, server, buildID, kind, path string) error {
	target, err := url.JoinPath(server, "buildid", buildID, kind)
	if err != nil {
		return fmt.Errorf("debuginfod server %q: %w", server, err)
	}
	if c.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.MaxTime)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "corethreads")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = c.Timeout
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return ErrNotFound
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", target, resp.Status)
	}
	return c.keep(resp, target, path)
}

// keep writes an answer to the cache.
func (c *Client) keep(resp *http.Response, target, path string) error {
	total := resp.ContentLength
	if n, err := strconv.ParseInt(resp.Header.Get("X-DEBUGINFOD-SIZE"), 10, 64); err == nil && total < 0 {
		total = n
	}
	tooLarge := func(n int64) error {
		return fmt.Errorf("%s has %d bytes, more than DEBUGINFOD_MAXSIZE (%d)", target, n, c.MaxSize)
	}
	if c.MaxSize > 0 && total > c.MaxSize {
		return tooLarge(total)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	body := io.Reader(&counted{r: resp.Body, total: max(total, 0), progress: c.Progress})
	if c.MaxSize > 0 {
		body = io.LimitReader(body, c.MaxSize+1)
	}
	n, err := io.Copy(f, body)
	switch {
	case err != nil:
		return fmt.Errorf("%s broke off after %d bytes: %w", target, n, err)
	case c.MaxSize > 0 && n > c.MaxSize:
		return tooLarge(n)
	case resp.ContentLength >= 0 && n != resp.ContentLength:
		return fmt.Errorf("%s broke off after %d of %d bytes", target, n, resp.ContentLength)
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Chmod(f.Name(), 0o400); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// counted tells how much was read.
type counted struct {
	r           io.Reader
	done, total int64
	progress    func(done, total int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.done += int64(n)
	if c.progress != nil {
		c.progress(c.done, c.total)
	}
	return n, err
}
