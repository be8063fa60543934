package managedresourcetest

import "github.com/espalier-dev/espalier/test/binary"

// Requests counts the requests of a controller, except watches and those for leases and Events.
type Requests = binary.Requests

// Recording stores the requests that change something, with their contents.
type Recording = binary.Recording

// Sent is a request of a controller.
type Sent = binary.Sent
