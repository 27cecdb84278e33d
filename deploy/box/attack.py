"""Runs attacks as code of the executor and prints which of them succeed.

usage: attack.py SOCKET LEVEL ROOT VICTIM

ROOT is the working directory, "" for none, VICTIM the pid of a process that the
code must not reach. $TOKEN is a token of the daemon, for an executor that demands one.
Prints a line NAME<TAB>RESULT per attack: stopped, GOT IT, or why the level is not
available. An attack prints its success itself, or a check from outside sees it.
$ATTACKS is a pattern that selects attacks by name.
"""
import glob
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys

import zino

SOCKET, LEVEL, ROOT, VICTIM = sys.argv[1:]
TOKEN = os.environ.get("TOKEN")
HOME = "/home/alice"
ALICE = pwd.getpwnam("alice").pw_uid
SIGN = "/usr/share/attacked"  # only root can create it

# Each attack: its name, the code, and the check from outside afterwards. VICTIM stands for the pid. "GOT IT" in the output counts.
SHELL = [
    ("write to a home", "echo x >/home/alice/attacked; echo x >>/home/alice/.profile", "changed"),
    ("write to /usr, /etc", "echo x >/usr/share/attacked; echo x >/etc/attacked", "changed"),
    ("write by a link", "ln -s /home/alice/.profile l && echo x >>l; ln -s /home/alice d && echo x >d/attacked", "changed"),
    ("read ~/.ssh", "cat /home/alice/.ssh/id | grep -q box-ssh && echo GOT IT", None),
    ("read through /proc", "cat /proc/VICTIM/root/home/alice/.ssh/id /proc/1/root/home/alice/.ssh/id /proc/VICTIM/cwd/.ssh/id | grep -q box-ssh && echo GOT IT", None),
    ("read with mounts", "unshare -Urm sh -c 'mount --bind /home/alice/.ssh /mnt; cat /mnt/id' | grep -q box-ssh && echo GOT IT", None),
    ("environment of others", "cat /proc/[0-9]*/environ | grep -qa box-env && echo GOT IT", None),
    ("keys and credentials", "cat /run/credentials/*/* /etc/credstore/* /home/alice/.config/zino/keys/* | grep -qa box- && echo GOT IT", None),
    ("history and memories", "cat /home/alice/.config/zino/data/mem/channels/* /var/lib/zino/mem/channels/* | grep -q kitchen-secret && echo GOT IT", None),
    ("records of the audit", "cat /var/lib/zino-audit/* | grep -qa seq && echo GOT IT; echo x >>/var/lib/zino-audit/audit-000001.jsonl && echo GOT IT", None),
    ("signal others", "kill -0 VICTIM && echo GOT IT", None),
    ("setuid programs", "/usr/local/bin/attack-id -u | grep -qx 0 && echo GOT IT", None),
    ("start a unit", "export XDG_RUNTIME_DIR=/run/user/$(id -u alice); systemd-run --user --quiet --wait touch /home/alice/attacked || systemd-run --quiet --wait touch /home/alice/attacked", "changed"),
    ("stop a unit", "export XDG_RUNTIME_DIR=/run/user/$(id -u alice); systemctl --user stop zino-mem.socket zino-sys.socket && echo GOT IT; systemctl stop zino-mem.socket && echo GOT IT", None),
    ("write to terminals", "for t in /dev/pts/[0-9]* /dev/tty; do echo GOT IT >$t; done", "terminal"),
    ("stay behind", "setsid -f sleep 7777; (trap '' HUP TERM; setsid sleep 7777 &) & echo $! >/dev/null", "survivors"),
    ("stay behind, in another group", "for p in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/*/*/cgroup.procs /sys/fs/cgroup/*/*/*/*/cgroup.procs; do echo $$ >$p; done; setsid -f sleep 7777", "survivors"),
    ("ignore signals", "trap '' TERM INT HUP; for i in 1 2 3; do (trap '' TERM INT HUP; while :; do sleep 7777; done) & done; while :; do sleep 7777; done", "survivors"),
    ("stop the supervisor", "kill -STOP $PPID || { echo RAN; exit; }; setsid -f sleep 7777; P=$PPID; (trap '' TERM HUP; while kill -STOP $P; do :; done) & exec sleep 7777", "survivors"),
    ("kill the supervisor", "setsid -f sleep 7777; echo RAN; kill -9 $PPID; sleep 0.1", "survivors"),
    ("change a repository", "echo x >>.git/config; echo x >.git/hooks/post-commit; mv .git g && mkdir -p .git/hooks && echo x >.git/config", "planted"),
    ("make a repository", "mkdir -p deep/er/.git; mkdir objects refs; echo x >HEAD; echo 'gitdir: /tmp' >deep/.git", "planted"),
    ("change AGENTS.md", "echo x >>AGENTS.md; mkdir deep; echo x >deep/AGENTS.md", "planted"),
    ("write a log of zino repl", "echo x >>debug/page-1a2b.md; echo x >debug/more.md; mv debug d && mkdir debug", "planted"),
    ("flood the output", "yes | head -c 300000000", "flood"),
    ("300 processes", "for i in $(seq 300); do sleep 2 & done; [ $(jobs -r | wc -l) -ge 300 ] && echo GOT IT", None),
]
PYTHON = [
    ("TCP to this host", """
import socket
socket.create_connection(("127.0.0.1", 8399), 2); print("GOT IT")""", None),
    ("sockets with a path", """
import glob, os, socket
for path in glob.glob("/run/zino/*") + glob.glob("/run/user/*/zino/*.sock") + glob.glob("/run/user/*/bus") + ["/run/dbus/system_bus_socket", "/run/zino-run/run.sock"]:
    try:
        socket.socket(socket.AF_UNIX).connect(path); print("GOT IT", path)
    except OSError: pass""", None),
    ("abstract sockets", """
import socket
socket.socket(socket.AF_UNIX).connect("\\0attack-box"); print("GOT IT")""", None),
    ("ptrace", """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, VICTIM, 0, 0) == 0: print("GOT IT"); libc.ptrace(17, VICTIM, 0, 0)""", None),
    ("disarm the supervisor", """
import os, resource, subprocess
try: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))
except (OSError, ProcessLookupError): pass
subprocess.Popen(["sleep", "7777"], start_new_session=True)""", "survivors"),
    ("hide and stay behind", """
import subprocess, sys
hide = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); time.sleep(7777)"
subprocess.Popen([sys.executable, "-c", hide], start_new_session=True, stdout=subprocess.PIPE).stdout.readline()""", "survivors"),
    ("stop what runs the unit", f"""
import os, subprocess, time
def stop(pid):
    try: os.kill(pid, 19); return True
    except OSError: return False
# The unit's supervisor was started a moment before, as the same user. At the other
# levels that user also runs the executor: leave it alone.
pids = range(2, os.getpid()) if os.getuid() != {ALICE} else [os.getppid()]
if any([stop(pid) for pid in pids]):
    subprocess.Popen(["sleep", "7777"], start_new_session=True)
    time.sleep(7777)""", "survivors"),
    ("memory of others", """
line = [l for l in open("/proc/VICTIM/maps") if "[stack]" in l][0]
begin = int(line.split("-")[0], 16)
m = open("/proc/VICTIM/mem", "rb"); m.seek(begin); m.read(1); print("GOT IT")""", None),
    ("descriptors of the executor", """
import os
for fd in os.listdir("/proc/self/fd"):
    try: what = os.readlink("/proc/self/fd/" + fd)
    except OSError: continue
    if int(fd) > 2 and not what.startswith("/proc/"): print("GOT IT", fd, what)""", None),
    ("type into the terminal", """
import fcntl, glob, termios
for t in glob.glob("/dev/pts/[0-9]*") + ["/dev/tty"]:
    try: fcntl.ioctl(open(t, "w"), termios.TIOCSTI, b"x"); print("GOT IT")
    except OSError: pass""", None),
    ("escape by the analyser", """
import os, time
names = [m + ".py" for m in ("py_compile", "code", "traceback", "sitecustomize")]
for name in names:
    with open(name, "w") as f: f.write("open('/home/alice/attacked', 'w')")
time.sleep(1)  # meanwhile the executor analyses this code
for name in names: os.remove(name)""", "changed"),
    ("change devices", """
import os
for change in (lambda: os.utime(0), lambda: os.utime("/dev/null"), lambda: os.chmod("/dev/null", 0o666), lambda: os.fchmod(0, 0o666)):
    try: change()
    except OSError: pass""", "touched"),
    ("limits of others", """
import os, resource
for pid in VICTIM, os.getppid():
    try: resource.prlimit(pid, resource.RLIMIT_NOFILE, resource.prlimit(pid, resource.RLIMIT_NOFILE)); print("GOT IT", pid)
    except OSError: pass""", None),
    ("400 MB", """
b = bytearray(400 << 20); print("GOT IT")""", None),
]


def changed():
    """Report whether code wrote outside its root, and undo it."""
    found = []
    for path in [HOME + "/attacked", SIGN, "/etc/attacked"]:
        if os.path.exists(path):
            os.remove(path)
            found.append(path)
    if os.path.getsize(HOME + "/.profile") != PROFILE:
        os.truncate(HOME + "/.profile", PROFILE)
        found.append(".profile")
    return found


PROJECT = {
    ".git/config": "[core]\n", ".git/HEAD": "ref: refs/heads/main\n", "AGENTS.md": "rules\n", "debug/page-1a2b.md": "a log\n",
    "debug.md": "# Connected pages:\n> Master registry of connected pages and their states.\n",
}


def project():
    """Reset the root to the protected files alone."""
    subprocess.run("rm -rf -- * .[a-z]*", shell=True, cwd=ROOT, check=True)
    for name, text in PROJECT.items():
        path = os.path.join(ROOT, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    subprocess.run(["mkdir", ".git/hooks"], cwd=ROOT, check=True)
    subprocess.run(["chown", "-R", "alice:", ROOT], check=True)


def planted():
    """Report whether protected files differ, or new ones exist, and reset the root."""
    found = []
    for name, text in PROJECT.items():
        try:
            if open(os.path.join(ROOT, name)).read() != text:
                found.append(name)
        except OSError:
            found.append(name)
    more = [".git/hooks/post-commit", "deep/.git", "deep/er/.git", "HEAD", "deep/AGENTS.md", "debug/more.md"]
    found += [name for name in more if os.path.lexists(os.path.join(ROOT, name))]
    project()
    return found


def touched():
    """Report whether the attributes of a device of the host were changed."""
    global DEVICE
    before, DEVICE = DEVICE, device()
    return DEVICE != before


def device():
    st = os.stat("/dev/null")
    return st.st_mode, st.st_mtime_ns, st.st_atime_ns


def survivors():
    """Report whether a process of an attack is left, and kill it."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            cmdline = open(path).read()
            if cmdline == "sleep\x007777\x00" or "time.sleep(7777)" in cmdline:
                found.append(int(path.split("/")[2]))
        except OSError:
            pass
    for pid in found:
        os.kill(pid, 9)
    return found


def terminal():
    """Report whether something was written to the terminal, and clear it."""
    os.kill(int(VICTIM), signal.SIGCONT)  # ptrace at the level off leaves it stopped
    with socket.socket(socket.AF_UNIX) as victim:  # it copies what was written before it accepts
        victim.settimeout(10)
        victim.connect("\0attack-box")
        victim.recv(1)
    with open("/tmp/terminal", "r+") as f:
        got = "GOT IT" in f.read()
        f.truncate(0)
    return got


def attempt(executor, code, look):
    code = code.replace("VICTIM", VICTIM)
    if executor == "bash":
        code += "\necho RAN"
    else:
        code = f"try:\n    exec({code!r})\nexcept Exception as e:\n    print(e)\nprint('RAN')"
    request = {"type": "execute", "executor": executor, "code": code, "sandbox": LEVEL}
    if ROOT:
        request["root"] = ROOT
    if TOKEN:
        request["token"] = TOKEN
    if LEVEL != "off":
        request["network"] = False
    try:
        answer = json.loads(list(zino.ask(SOCKET, json.dumps(request)))[-1])
    except OSError as err:
        return f"no answer: {err}"
    if answer["type"] == "error":
        return "not available: " + answer["message"]
    if answer.get("confinement", {}).get("sandbox") != LEVEL:
        return "not at this level: " + json.dumps(answer.get("confinement"))
    got = "GOT IT" in answer["stdout"]
    if look == "flood":
        got = len(answer["stdout"]) > 2 << 20
    elif look:
        got = got or bool((look != "planted" or ROOT) and globals()[look]())
    if got:
        return "GOT IT"
    if "temporarily unavailable" in answer["stderr"]:
        return "stopped"  # the shell gave up at a limit of processes
    if "RAN" not in answer["stdout"] and not answer.get("timed_out") and "limit" not in answer["confinement"]:
        return "it did not run: " + answer["stderr"]
    return "stopped"


DEVICE = device()
PROFILE = os.path.getsize(HOME + "/.profile")
if ROOT:
    project()
for kind, attacks in ("bash", SHELL), ("python3", PYTHON):
    for name, code, look in attacks:
        if not re.search(os.environ.get("ATTACKS", ""), name):
            continue
        print(name, attempt(kind, code, look), sep="\t", flush=True)
