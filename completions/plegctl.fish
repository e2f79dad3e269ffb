# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_plegctl_global_optspecs
    string join \n r/runtime-endpoint= c/config= host-root= timeout= color= q/quiet v/verbose no-headers h/help V/version
end

function __fish_plegctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_plegctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_plegctl_using_subcommand
    set -l cmd (__fish_plegctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c plegctl -n "__fish_plegctl_needs_command" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_needs_command" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_needs_command" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_needs_command" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_needs_command" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_needs_command" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_needs_command" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_needs_command" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_needs_command" -s V -l version -d 'Print version'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "health" -d 'The verdict and the culprit: which call, which pod, which container holds PLEG up, and what to do first'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "relist" -d 'One relist: every pod and container as the kubelet would see them now, each call timed'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "watch" -d 'The kubelet\'s PLEG, live: every event it would have seen, every relist timed'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "diff" -d 'What the kubelet\'s PLEG would have emitted between two relists, and what it would not have noticed'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "nodes" -d 'The PLEG of every node of the cluster, the worst first: age of the last relist, its durations, events lost'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "record" -d 'The flight recorder: keeps what every call to the runtime came to, so that any question can be asked afterwards'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "capture" -d 'What the flight recorder kept: list it, check it, cut a part out of it, report on it'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "explain" -d 'What a finding\'s id means: D of `health`, ST of `stacks`, SP of `static-pods lint`. Without an id: the list'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "stacks" -d 'Who waits for whom inside containerd, its shim, CRI-O or a kubelet, told from a goroutine dump'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "static-pods" -d 'Static pods: what the kubelet of this node runs from files'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "pods" -d 'What the kubelet is told to run, from every source, and what became of it'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "sim" -d 'Simulated runtimes: what there is, what each teaches, and one on a real socket'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "completions" -d 'Print the completion script of a shell'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "man" -d 'Write a man page for every command'
complete -c plegctl -n "__fish_plegctl_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l budget -d 'Time for everything [default: 30s; 2m with --deep; 4s with --npd]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l patience -d 'How long a call that does not answer is waited for: hung is likely after 5s and certain after 10s' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l kubelet-healthz -d 'The kubelet\'s health check; only plain http' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l kubelet-metrics -d 'The kubelet\'s metrics: an http URL, a file, or `-` for stdin' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l kubelet-version -d 'Release of the kubelet whose relist is estimated [default: what the running kubelet\'s metrics say, else the newest known]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l runtime-request-timeout -d 'The kubelet\'s time-out of one call [default: the running kubelet\'s, else 2m]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l threshold -d 'Age from which on PLEG is not healthy [default: 3m]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l save -d 'Write the report as JSON to this file, besides what is printed' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l from -d 'Show a saved report instead of making one' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l stacks -d 'Where a goroutine dump comes from when something is silent: `auto` (what the runtime gives without a signal), `never`, a file or `unix://SOCKET`' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l proc -d 'The node\'s process table [default: /proc]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l state -d 'Remember here what hung, so that the next run asks for that alone; with --npd what is likely counts from the second run on, and what is well again from the second on' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l fail-on -d 'Which findings make the exit status 1' -r -f -a "critical\t'An unhealthy PLEG'
warning\t'A degraded one too'"
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -s o -l output -d 'How to print' -r -f -a "table\t'A screen to be read from the top down'
wide\t'The same with every probe'
json\t'One document'
jsonl\t'The same on one line'
prometheus\t'Verdict, findings and estimate as metrics'"
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l deep -d 'Take second samples everywhere'
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l probe-shims -d 'Ask `ContainerStats` of every running container too: the only read that shows a shim which no longer answers'
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l npd -d 'One line of at most 80 bytes, for node-problem-detector'
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand health" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l inspect -d 'Whether to make the kubelet\'s status calls too, for every pod' -r -f -a "none\t'The two list calls only'
all\t'Every pod'"
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l concurrency -d 'How many pods to ask about at once' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l save -d 'Write the whole report as JSON to this file, besides what is printed' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -s n -l namespace -d 'Show only pods of this namespace' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l pod -d 'Show only the pod with this name or UID' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l state -d 'Show only containers in this state' -r -f -a "created\t''
running\t''
exited\t''
unknown\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l sort-by -d 'Order of the rows [default: the kubelet\'s]' -r -f -a "name\t'Namespace, then pod, then container'
age\t'Youngest first'
attempt\t'Highest restart count first'
state\t'Created, running, exited, unknown'"
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -s o -l output -d 'How to print' -r -f -a "table\t'A row for each container and a line about the calls'
wide\t'More columns, and the slowest calls first'
json\t'One document'
jsonl\t'The same on one line'
prometheus\t'Durations, sizes and counts as metrics'"
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l serial -d 'Ask about one pod after the other, as the kubelet does'
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l stream-lists -d 'List through the runtime\'s streaming RPCs (CRI 1.36) instead of the kubelet\'s default ones'
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand relist" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l mode -d 'Whether to relist, to read the runtime\'s events as the kubelet\'s evented PLEG does, or both to compare them' -r -f -a "generic\t'The runtime\'s lists, again and again'
evented\t'The runtime\'s event stream, with a relist now and then'
compare\t'Both beside each other, and where they do not agree'"
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l period -d 'Pause between the end of a relist and the start of the next [default: 1s; 300s in evented mode]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l threshold -d 'Age from which on PLEG is not healthy [default: 3m; 10m in evented mode]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l count -d 'End after this many relists, failed ones included' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l for -d 'End after this time' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l until-slow -d 'End with exit status 1 as soon as a relist, or one call of it, takes longer than this' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l log -d 'Append the JSON lines to this file too' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l retries -d 'Give the event stream up after it has ended this many times' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l max-stream -d 'Close the event stream after this time and open it again, which is no failure' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l metrics-listen -d 'Serve the kubelet\'s PLEG metrics over HTTP on this address, at `/metrics`' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l kubelet-version -d 'Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: the newest known]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l speed -d 'How fast a capture is played: so many times as fast as it was, or `max`' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -s o -l output -d 'How to print' -r -f -a "table\t'A line for each event, and a live line on a terminal'
jsonl\t'A JSON object a line for everything that happens'"
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l until-unhealthy -d 'End with exit status 1 as soon as PLEG is not healthy'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l diagnose -d 'Say in one line what holds PLEG up, while a call is silent for 5s or a relist takes more than 10s'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l initial -d 'Show the events of the first relist in the table too'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l no-inspect -d 'Leave out the status calls that the kubelet makes for changed pods'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l steal-events -d 'Read the event stream even where that takes events away from the kubelet'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -s o -l output -d 'How to print' -r -f -a "table\t'A line for each event, then what PLEG would have missed'
json\t'One document'
jsonl\t'The same on one line'"
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -l force -d 'Compare reports of two different nodes'
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -l kubeconfig -d 'The kubeconfig [default: `$KUBECONFIG`, ~/.kube/config, the pod\'s own account]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -l context -d 'A context of the kubeconfig [default: its current one]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -s l -l selector -d 'Only nodes with these labels, as kubectl takes them' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -l concurrency -d 'Nodes that are asked at a time' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -l interval -d 'Pause between two looks with --watch' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -s o -l output -d 'How to print' -r -f -a "table\t'One row a node'
wide\t'The same with what asking took'
json\t'One document'
jsonl\t'One document a line'
name\t'The names of the nodes that are not healthy'"
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -s w -l watch -d 'Look again and again until Ctrl-C; from the second look on relists are those since the one before'
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand nodes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l max-size -d 'Never take more than this on the disk, pinned incidents included' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l max-age -d 'Give up what is older than this and belongs to no incident' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l period -d 'Pause between the end of a relist and the start of the next' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l slow -d 'A call or a relist beyond this opens an incident, as one that fails does' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l threshold -d 'Age of the last relist from which on PLEG is not healthy' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l before -d 'How much before an incident is pinned' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l after -d 'How much after an incident is pinned' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l keep -d 'How many incidents are pinned' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l count -d 'End after this many relists, failed ones included' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l for -d 'End after this time' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l kubelet-version -d 'Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: this node\'s, else the newest known]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l metrics-listen -d 'Serve the kubelet\'s PLEG metrics and the recorder\'s own over HTTP on this address, at `/metrics`' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l no-host -d 'Leave out pressure and processes of the node'
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l no-diagnose -d 'Leave out the diagnosis that is made while an incident lasts'
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand record" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -f -a "ls" -d 'Say what is in a capture: from when to when, and which incidents'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -f -a "export" -d 'Write a part of a capture to one file, which is a capture like any other'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -f -a "report" -d 'Tell the story: relist latency, age against the threshold, incidents, who did what'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -f -a "check" -d 'Read every entry and every answer, and say what is gone; exit status 1 if anything is'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and not __fish_seen_subcommand_from ls export report check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -s o -l output -d 'How to print' -r -f -a "table\t'For people'
json\t'One document'"
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -l incident -d 'Only what was pinned for this incident' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -l from -d 'Nothing before: RFC 3339, `HH:MM:SS`, or `+90s` from the start' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -l to -d 'Nothing after' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -l anonymise -d 'Replace every name: pods, namespaces, containers, images, labels, addresses, the node'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -l incident -d 'Only what was pinned for this incident' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -s o -l output -d 'How to print' -r -f -a "table\t'For a terminal'
html\t'One page that needs nothing else'
json\t'One document'"
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -s o -l output -d 'How to print' -r -f -a "table\t'For people'
json\t'One document'"
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from help" -f -a "ls" -d 'Say what is in a capture: from when to when, and which incidents'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write a part of a capture to one file, which is a capture like any other'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from help" -f -a "report" -d 'Tell the story: relist latency, age against the threshold, incidents, who did what'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from help" -f -a "check" -d 'Read every entry and every answer, and say what is gone; exit status 1 if anything is'
complete -c plegctl -n "__fish_plegctl_using_subcommand capture; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand explain" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -l signatures -d 'More signatures, in a file: see docs/stacks.md' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -s o -l output -d 'How to print' -r -f -a "table\t'The chain, then what stands beside it, folded'
wide\t'The same with every finding, group and frame'
json\t'One document'
jsonl\t'The same on one line'"
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -l live -d 'Take names, children and files from the process itself, though the dump does not say that it is of this node'
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -l no-live -d 'Take nothing from a process, only from the dump'
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand stacks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -f -a "lint" -d 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and not __fish_seen_subcommand_from lint help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l node-name -d 'Name of the node, which every static pod gets as a suffix [default: this node\'s]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l kubelet-version -d 'Release of the kubelet whose rules count, such as 1.31 [default: the newest known]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l as -d 'The directory under which the kubelet reads the files, where it is not PATH itself; pods\' UIDs depend on it' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l upgrade-to -d 'Say too what an upgrade to this release restarts and refuses, such as 1.36' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l fail-on -d 'What makes the exit status 1' -r -f -a "error\t'Something that the kubelet rejects, ignores or stops'
warning\t'Or something that was hardly meant'
info\t'Or anything at all'
never\t'Nothing'"
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l ignore -d 'Leave out this check, such as SP053; may be given more than once' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l output-file -d 'Write this format to a file too, such as sarif=lint.sarif; may be given more than once' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -s o -l output -d 'How to print' -r -f -a "table\t'Each finding with its line, then which file gives which pod'
json\t'One document'
jsonl\t'The same on one line'
sarif\t'SARIF 2.1.0, for code scanning'
github\t'Annotations for GitHub Actions'"
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l no-cri -d 'Do not compare with what the runtime runs'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from lint" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from help" -f -a "lint" -d 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs'
complete -c plegctl -n "__fish_plegctl_using_subcommand static-pods; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l manifests -d 'A directory or a file of manifests; sources that are given are the only ones [default: the running kubelet\'s]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l manifest-url -d 'A URL that serves a manifest or a list of them' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l manifest-url-header -d 'A header to send there, as KEY:VALUE; may be given more than once' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l api-pods -d 'The API server\'s pods of this node, as `kubectl get pods -A --field-selector spec.nodeName=N -o json` prints them; `-` for stdin, where each document is the whole state' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l node-name -d 'Name of the node [default: this node\'s]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l kubelet-version -d 'Release of the kubelet whose rules and UIDs count, such as 1.31 [default: the newest known]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l file-check-frequency -d 'How often the manifests are read again, besides what inotify tells' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l http-check-frequency -d 'How often the URL is asked' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s n -l namespace -d 'Show only pods of this namespace' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s o -l output -d 'How to print' -r -f -a "table\t'A row for each pod, then a line about the sources'
wide\t'With UIDs'
json\t'One document'
jsonl\t'The same on one line; with --watch a line for each update and step'
name\t'NAMESPACE/NAME'"
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l no-cri -d 'Do not ask the runtime'
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s w -l watch -d 'Follow: each update as the kubelet\'s sync loop gets it, then what the runtime makes of it'
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s A -l all-namespaces -d 'Show the pods of all namespaces, as is the default'
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand pods" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -f -a "list" -d 'Name every scenario'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -f -a "describe" -d 'Say what is wrong in a scenario, what a kubelet would show and what to try'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -f -a "serve" -d 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and not __fish_seen_subcommand_from list describe serve help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from describe" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -l listen -d 'Socket to make, with or without `unix://`; nothing may be there yet' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "list" -d 'Name every scenario'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "describe" -d 'Say what is wrong in a scenario, what a kubelet would show and what to try'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM'
complete -c plegctl -n "__fish_plegctl_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand completions" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -s r -l runtime-endpoint -d 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet\'s, the well-known sockets]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -s c -l config -d 'crictl\'s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -l host-root -d 'The node\'s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]' -r -F
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -l timeout -d 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]' -r
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -l color -d 'Whether to colour what goes to a terminal' -r -f -a "auto\t''
always\t''
never\t''"
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -s q -l quiet -d 'Leave out progress and notes'
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -s v -l verbose -d 'Say more: which runtime was chosen and why; twice for every call'
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -l no-headers -d 'Leave out table headers'
complete -c plegctl -n "__fish_plegctl_using_subcommand man" -s h -l help -d 'Print help'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "health" -d 'The verdict and the culprit: which call, which pod, which container holds PLEG up, and what to do first'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "relist" -d 'One relist: every pod and container as the kubelet would see them now, each call timed'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "watch" -d 'The kubelet\'s PLEG, live: every event it would have seen, every relist timed'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "diff" -d 'What the kubelet\'s PLEG would have emitted between two relists, and what it would not have noticed'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "nodes" -d 'The PLEG of every node of the cluster, the worst first: age of the last relist, its durations, events lost'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "record" -d 'The flight recorder: keeps what every call to the runtime came to, so that any question can be asked afterwards'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "capture" -d 'What the flight recorder kept: list it, check it, cut a part out of it, report on it'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "explain" -d 'What a finding\'s id means: D of `health`, ST of `stacks`, SP of `static-pods lint`. Without an id: the list'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "stacks" -d 'Who waits for whom inside containerd, its shim, CRI-O or a kubelet, told from a goroutine dump'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "static-pods" -d 'Static pods: what the kubelet of this node runs from files'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "pods" -d 'What the kubelet is told to run, from every source, and what became of it'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "sim" -d 'Simulated runtimes: what there is, what each teaches, and one on a real socket'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "completions" -d 'Print the completion script of a shell'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "man" -d 'Write a man page for every command'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and not __fish_seen_subcommand_from health relist watch diff nodes record capture explain stacks static-pods pods sim completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and __fish_seen_subcommand_from capture" -f -a "ls" -d 'Say what is in a capture: from when to when, and which incidents'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and __fish_seen_subcommand_from capture" -f -a "export" -d 'Write a part of a capture to one file, which is a capture like any other'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and __fish_seen_subcommand_from capture" -f -a "report" -d 'Tell the story: relist latency, age against the threshold, incidents, who did what'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and __fish_seen_subcommand_from capture" -f -a "check" -d 'Read every entry and every answer, and say what is gone; exit status 1 if anything is'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and __fish_seen_subcommand_from static-pods" -f -a "lint" -d 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "list" -d 'Name every scenario'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "describe" -d 'Say what is wrong in a scenario, what a kubelet would show and what to try'
complete -c plegctl -n "__fish_plegctl_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "serve" -d 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM'
