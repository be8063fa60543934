package managedresourcetest

import "github.com/espalier-dev/espalier/test/binary"

// Requests counts the requests of a controller, watches, leases and Events aside.
type Requests = binary.Requests

// Recording keeps the requests that change something, with what they carry.
type Recording = binary.Recording

// Sent is a request of a controller.
type Sent = binary.Sent
