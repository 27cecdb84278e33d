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

	Template        string `json:"template,omitzero"`         // of sys
	SessionTemplate string `json:"session_template,omitzero"` // of sys
}

// statusObject is what zino status --json prints. own is for a user without
// services.
func statusObject(reports []report, own *ownSettings) any {
	var object struct {
		Services []serviceStatus `json:"services"`
		Own      *ownSettings    `json:"own,omitzero"`
	}
	object.Own = own
	for _, r := range reports {
		object.Services = append(object.Services, serviceStatus{r.service, r.state, r.pong.Version, r.pong.UptimeS, r.socket, r.callers, r.problems, r.templates[0], r.templates[1]})
	}
	return object
}
