package agr

import (
	"encoding/json"
	"errors"

	"zino/pkg/rpc"
	"zino/proto"
)

const jobParameters = `"job":{"type":"string"},"from":{"type":"string"}`

// jobTool works on background commands, which bash has started.
var jobTool = tool{
	function: function{
		"job", "Background commands: new output, wait, stop.",
		proto.Raw(`{"type":"object","properties":{"action":{"type":"string","enum":["output","wait","stop"]},` + jobParameters + `,"timeout_s":{"type":"integer"}},"required":["action","job"]}`),
	},
	required: []string{"action", "job"}, recover: repeat, call: (*turn).onJob,
}

// jobOutputTool is the same for turns that may not change anything.
var jobOutputTool = tool{
	function: function{
		"job", "The new output of a command in the background.",
		proto.Raw(`{"type":"object","properties":{"action":{"type":"string","enum":["output"]},` + jobParameters + `},"required":["action","job"]}`),
	},
	required: []string{"action", "job"}, recover: repeat, call: (*turn).onJob,
}

// jobEnd is the result of the actions wait and stop.
type jobEnd struct {
	Job         string `json:"job"`
	State       string `json:"state"`
	Running     bool   `json:"running,omitzero"`
	ExitCode    *int   `json:"exit_code,omitzero"`
	Limit       string `json:"limit,omitzero"`
	Stopped     bool   `json:"stopped,omitzero"`
	StdoutBytes int64  `json:"stdout_bytes"`
	StderrBytes int64  `json:"stderr_bytes"`
}

// onJob reads the output of a job of the session, waits for its end, or stops it.
func (t *turn) onJob(c *call, f fields) result {
	action, err := f.text("action")
	job, jobErr := f.text("job")
	from, fromErr := f.text("from")
	if number := json.Number(""); fromErr != nil && json.Unmarshal(f["from"], &number) == nil {
		from, fromErr = number.String(), nil
	}
	wait, waitErr := f.count("timeout_s", 60, 600)
	if err := errors.Join(err, jobErr, fromErr, waitErr); err != nil {
		return malformedCall(err)
	}
	var info proto.JobInfo
	switch {
	case action == "output":
		text, err := askJobs(t, c, proto.ExcJobOutput, proto.ReadJob{Job: job, SessionID: t.req.SessionID, From: from, OutputBytes: t.outputBytes, Mask: t.req.Mask})
		if err != nil {
			return failed(err)
		}
		return result{data: success(text)}
	case t.kit.readOnly:
		return refused("action must be output")
	case action == "wait":
		info, err = askJobs(t, c, proto.ExcJobWait, proto.WaitJob{Job: job, SessionID: t.req.SessionID, TimeoutS: &wait})
	case action == "stop":
		err = t.approved(c, func(grant string) (err error) {
			info, err = askJobs(t, c, proto.ExcJobStop, proto.JobID{Job: job, SessionID: t.req.SessionID, Token: t.token(), Key: t.fullKey(c), Grant: grant})
			return err
		})
	default:
		return refused("action must be output, wait or stop")
	}
	if err != nil {
		return failed(err)
	}
	return result{data: success(jobEnd{
		Job: info.ID, State: info.State, Running: info.State == proto.JobRunning, ExitCode: info.ExitCode,
		Limit: info.Limit, Stopped: info.Stopped, StdoutBytes: info.StdoutBytes, StderrBytes: info.StderrBytes,
	})}
}

// askJobs asks exc, again if it is restarted meanwhile: jobs run on.
func askJobs[Q, R any](t *turn, c *call, method proto.Method[Q, R], req Q) (answer R, err error) {
	err = t.once(c, "", func(string, bool, string) (err error) {
		answer, err = rpc.Call(t.ctx, t.exc, method, req)
		return err
	})
	return answer, err
}

// waitsForJob reports whether a call waits for a job: a loop of waits is not an error.
func (c *call) waitsForJob() bool {
	if c.name != jobTool.Name {
		return false
	}
	var input struct{ Action string }
	return json.Unmarshal(c.input, &input) == nil && input.Action == "wait"
}
