// Command shell takes the place of the shell in the image that etcd-druid uses to give a folder of backups to the user of the sidecar. It
// runs the only script that such a container has: chown -R UID:GID FOLDER.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	script := strings.Join(args, " ")
	var uid, gid int
	var folder string
	if _, err := fmt.Sscanf(script[max(0, strings.Index(script, "chown")):], "chown -R %d:%d %s", &uid, &gid, &folder); err != nil {
		return fmt.Errorf("this is no shell: it cannot run %q", script)
	}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}
