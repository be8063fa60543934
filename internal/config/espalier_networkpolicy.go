package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// EspalierNetworkPolicy tunes netpol-controller.
type EspalierNetworkPolicy struct{}

func defaultEspalierNetworkPolicy(_ *EspalierNetworkPolicy) {}

func validateEspalierNetworkPolicy(_ EspalierNetworkPolicy, _ *field.Path) field.ErrorList {
	return nil
}
