package cli

// serviceStatus is what zino status --json says of a service.
type serviceStatus struct {
	Service  string   `json:"service"`
	State    string   `json:"state"`
	Version  string   `json:"version,omitzero"`
	UptimeS  int64    `json:"uptime_s,omitzero"`
	Socket   string   `json:"socket"`
	Callers  string   `json:"callers,omitzero"`
	Problems []string `json:"problems,omitempty"`
}

// statusObject is what zino status --json prints.
func statusObject(reports []report) any {
	var object struct {
		Services []serviceStatus `json:"services"`
	}
	for _, r := range reports {
		object.Services = append(object.Services, serviceStatus{r.service, r.state, r.pong.Version, r.pong.UptimeS, r.socket, r.callers, r.problems})
	}
	return object
}
