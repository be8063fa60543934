package proof

import (
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// kubernetesServer returns kube-apiserver. All users that it knows may read the path, and no other user.
func kubernetesServer(v values.Values) Server {
	return Server{
		Name: kubeapiserver.Name, Labels: exposure.Labels(), Port: exposure.Port, Authority: kubeapiserver.Authority,
		Host: object.ServiceHost(v.Namespace, exposure.Name), Path: "/api",
	}
}

// demandsOfServers returns the demands on all servers whose certificates are rotated. The requests to etcds and to gardener-apiserver use
// client certificates that the new authorities have signed. The other requests have no client certificate.
func (p *Prover) demandsOfServers() ([]Demand, error) {
	etcdClient, err := p.currentCertificate(etcd.ClientCertificate(p.Values).Config.LogicalName())
	if err != nil {
		return nil, err
	}
	aggregator, err := p.currentCertificate(kubeapiserver.AggregatorCertificate(p.Values).Config.LogicalName())
	if err != nil {
		return nil, err
	}
	aggregator.PassedUser = User
	const anyClient = "a client that trusts the authorities of its bundle"
	demands := []Demand{
		{Sends: anyClient, Server: kubernetesServer(p.Values)},
		{
			Sends: "the front proxy", Credential: aggregator, Wants: Accepted,
			Server: Server{
				Name: gardenerapiserver.Name, Labels: gardenerapiserver.Labels(), Port: gardenerapiserver.Port, Authority: gardener.Authority,
				Host: object.ServiceHost(p.Values.Namespace, gardenerapiserver.Name), Path: "/healthz",
			},
		},
		{
			Sends: anyClient, Server: Server{
				Name: gardeneradmission.Name, Labels: gardeneradmission.Labels(), Port: gardeneradmission.Port, Authority: gardener.Authority,
				Host: object.ServiceHost(p.Values.Namespace, gardeneradmission.Name), Path: "/",
			},
		},
	}
	for _, role := range []etcd.Role{etcd.Main, etcd.Events} {
		demands = append(demands, Demand{
			Sends: "a client with a certificate of the new authority", Credential: etcdClient, Server: Server{
				Name: role.Name(), Labels: role.Labels(), Port: etcd.ClientPort, Authority: etcd.Authority,
				Host: object.ServiceHost(p.Values.Namespace, role.Name()+"-client"), Path: "/health",
			},
		})
	}
	return demands, nil
}

// currentCertificate returns the credential with the current certificate of a logical name.
func (p *Prover) currentCertificate(name string) (Credential, error) {
	secret, err := p.Secrets.Current(name)
	if err != nil {
		return Credential{}, err
	}
	return Certificate(secret.Data)
}
