package gcalsim

import "net/http"

func (s *Sim) controlRoutes() *http.ServeMux { return http.NewServeMux() }
