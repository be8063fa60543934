// Command chown replaces the program of this name in the image that etcd-druid uses to change the owner of a backup folder to the user of
// the sidecar. It supports only: chown -R UID:GID FOLDER.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 || args[0] != "-R" {
		return errors.New("usage: chown -R UID:GID FOLDER")
	}
	var uid, gid int
	if _, err := fmt.Sscanf(args[1], "%d:%d", &uid, &gid); err != nil {
		return fmt.Errorf("parse user and group %q: %w", args[1], err)
	}
	return filepath.WalkDir(args[2], func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}
