package debuginfod

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const id = "0123456789abcdef0123456789abcdef01234567"

// server answers one build-id and counts the requests.
func server(t *testing.T, contents string) (url string, requests *int) {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		if r.URL.Path != "/buildid/"+id+"/executable" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(contents))
	}))
	t.Cleanup(s.Close)
	return s.URL, &n
}

func TestFindFetchesOnce(t *testing.T) {
	url, requests := server(t, "\x7fELF and more")
	empty, _ := server(t, "")
	c := &Client{URLs: []string{empty + "/nothing", url}, Cache: t.TempDir()}
	for range 2 {
		path, err := c.Find(t.Context(), id, Executable)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != "\x7fELF and more" {
			t.Fatalf("%s holds %q, %v", path, got, err)
		}
	}
	if *requests != 1 {
		t.Errorf("%d requests for a file that is in the cache after the first", *requests)
	}
}

func TestFindNothing(t *testing.T) {
	url, _ := server(t, "x")
	c := &Client{URLs: []string{url}, Cache: t.TempDir()}
	if _, err := c.Find(t.Context(), id, DebugInfo); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	if _, err := c.Find(t.Context(), "../../etc", Executable); err == nil {
		t.Error("a path was taken for a build-id")
	}
}

func TestNothingHalfWritten(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"broken off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("short"))
		},
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				w.Write([]byte(strings.Repeat("x", 1000)))
			}
		},
		"failing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(handler)
			defer s.Close()
			c := &Client{URLs: []string{s.URL}, Cache: t.TempDir(), MaxSize: 5000}
			if path, err := c.Find(t.Context(), id, Executable); err == nil {
				t.Fatalf("found %s", path)
			}
			left, err := filepath.Glob(filepath.Join(c.Cache, "*", "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	c := &Client{URLs: []string{s.URL}, Cache: t.TempDir()}
	if _, err := c.Find(ctx, id, Executable); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv("DEBUGINFOD_URLS", "")
	if c, err := FromEnvironment(); c != nil || err != nil {
		t.Errorf("client %v, error %v without DEBUGINFOD_URLS", c, err)
	}
	cache := t.TempDir()
	t.Setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1 http://127.0.0.1:2")
	t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
	t.Setenv("DEBUGINFOD_MAXSIZE", "17")
	c, err := FromEnvironment()
	if err != nil || len(c.URLs) != 2 || c.Cache != cache || c.MaxSize != 17 {
		t.Errorf("client %+v, error %v", c, err)
	}
	t.Setenv("DEBUGINFOD_MAXSIZE", "many")
	if _, err := FromEnvironment(); err == nil {
		t.Error("a size that is no number was taken")
	}
}
