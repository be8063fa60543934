package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// EspalierToken tunes token-controllers.
type EspalierToken struct{}

func defaultEspalierToken(_ *EspalierToken) {}

func validateEspalierToken(_ EspalierToken, _ *field.Path) field.ErrorList { return nil }
