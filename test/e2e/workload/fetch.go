package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// requestTimeout is the time limit of one request, or of one connection.
	requestTimeout = 5 * time.Second
	// pause is the time between two attempts.
	pause = 500 * time.Millisecond
	// excerpt is the maximum length of the printed part of a response, in bytes.
	excerpt = 1024
)

// request defines the URL to fetch, its credentials, and the expected result.
type request struct {
	url, tokenFile, caFile, kubeconfig string
	want                               int
	patience                           time.Duration
}

// fetch requests a URL, and prints the status and the beginning of the response. A URL that begins with / is a path of the API server,
// which the kubeconfig or the Pod's environment names. Files are read again for each attempt, because they may change.
func fetch(ctx context.Context, args []string, out io.Writer) error {
	wanted, err := parse("fetch", args)
	if err != nil {
		return err
	}
	return until(ctx, wanted.patience, out, func(ctx context.Context) (string, bool) {
		status, body, err := wanted.send(ctx)
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("%d\n%s", status, body), status == wanted.want
	})
}

// parse parses the arguments of a command that has flags and one argument.
func parse(command string, args []string) (request, error) {
	r := request{}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.StringVar(&r.tokenFile, "token", "", "a file with a bearer token to send")
	flags.StringVar(&r.caFile, "ca", "", "a file with the certificate authorities to trust")
	flags.StringVar(&r.kubeconfig, "kubeconfig", "", "a file to take server, authority and token from")
	flags.IntVar(&r.want, "want", http.StatusOK, "the status that makes the exit code 0")
	flags.DurationVar(&r.patience, "for", 0, "how long to try until it is the wanted one")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		return request{}, errors.Join(errUsage, err)
	}
	r.url = flags.Arg(0)
	return r, nil
}

func (r request) send(ctx context.Context) (status int, body string, err error) {
	config, err := r.config()
	if err != nil {
		return 0, "", err
	}
	config.Timeout = requestTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, "", err
	}
	url := r.url
	if strings.HasPrefix(url, "/") {
		url = strings.TrimSuffix(config.Host, "/") + url
	}
	wanted, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	wanted.Close = true // so that each attempt opens a connection
	answer, err := client.Do(wanted)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, excerpt))
	return answer.StatusCode, string(text), err
}

// config returns the configuration of a client from the kubeconfig, or from the files and the Pod's environment.
func (r request) config() (*rest.Config, error) {
	if r.kubeconfig == "" {
		return &rest.Config{
			Host:            "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")),
			BearerTokenFile: r.tokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: r.caFile},
		}, nil
	}
	kubeconfig, err := clientcmd.LoadFromFile(r.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.kubeconfig, err)
	}
	if kubeconfig.Contexts[kubeconfig.CurrentContext] == nil {
		return nil, fmt.Errorf("read %s: it has no context %q", r.kubeconfig, kubeconfig.CurrentContext)
	}
	return clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
}
