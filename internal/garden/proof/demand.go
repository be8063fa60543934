package proof

import (
	"errors"
	"fmt"
	"net"
	"net/http"
)

// Answer is the kind of answer that a server must give.
type Answer int

const (
	// Any is any answer. The server has a certificate of its authority, and has accepted the client certificate for the connection.
	Any Answer = iota
	// Accepted is an answer to a user that the server knows. The user need not have a right.
	Accepted
	// Refused is the answer to a user that the server does not know.
	Refused
)

// Demand is the answer that each Pod of a server must give to a credential before a phase ends.
type Demand struct {
	Server Server
	// Sends describes the credential, for example "a client certificate of the former authority".
	Sends      string
	Credential Credential
	Wants      Answer
	// TrustsFormer is true if the certificate of the server may be of its former authority, because another demand is about that.
	TrustsFormer bool
}

// Problem returns why the answer of a Pod, its status or an error, is not the answer that is demanded, or "".
func (d *Demand) Problem(pod string, status int, err error) string {
	accepts := status < http.StatusMultipleChoices || status == http.StatusForbidden
	switch {
	case err != nil:
		return fmt.Sprintf("Pod %s does not answer to %s: %v", pod, d.Sends, withoutAddresses(err))
	case d.Wants == Accepted && status == http.StatusUnauthorized:
		return fmt.Sprintf("Pod %s refuses %s", pod, d.Sends)
	case d.Wants == Refused && accepts:
		return fmt.Sprintf("Pod %s still accepts %s", pod, d.Sends)
	case d.Wants == Accepted && !accepts, d.Wants == Refused && status != http.StatusUnauthorized:
		return fmt.Sprintf("Pod %s answers with status %d to %s", pod, status, d.Sends)
	}
	return ""
}

// withoutAddresses returns the cause of an error of a connection, because the port of the client differs each time.
func withoutAddresses(err error) error {
	if failed, isOfNetwork := errors.AsType[*net.OpError](err); isOfNetwork {
		return failed.Err
	}
	return err
}
