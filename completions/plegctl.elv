
use builtin;
use str;

set edit:completion:arg-completer[plegctl] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'plegctl'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'plegctl'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand health 'The verdict and the culprit: which call, which pod, which container holds PLEG up, and what to do first'
            cand relist 'One relist: every pod and container as the kubelet would see them now, each call timed'
            cand watch 'The kubelet''s PLEG, live: every event it would have seen, every relist timed'
            cand diff 'What the kubelet''s PLEG would have emitted between two relists, and what it would not have noticed'
            cand nodes 'The PLEG of every node of the cluster, the worst first: age of the last relist, its durations, events lost'
            cand record 'The flight recorder: keeps what every call to the runtime came to, so that any question can be asked afterwards'
            cand capture 'What the flight recorder kept: list it, check it, cut a part out of it, report on it'
            cand explain 'What a finding''s id means: D of `health`, ST of `stacks`, SP of `static-pods lint`. Without an id: the list'
            cand stacks 'Who waits for whom inside containerd, its shim, CRI-O or a kubelet, told from a goroutine dump'
            cand static-pods 'Static pods: what the kubelet of this node runs from files'
            cand pods 'What the kubelet is told to run, from every source, and what became of it'
            cand sim 'Simulated runtimes: what there is, what each teaches, and one on a real socket'
            cand completions 'Print the completion script of a shell'
            cand man 'Write a man page for every command'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'plegctl;health'= {
            cand --budget 'Time for everything [default: 30s; 2m with --deep; 4s with --npd]'
            cand --patience 'How long a call that does not answer is waited for: hung is likely after 5s and certain after 10s'
            cand --kubelet-healthz 'The kubelet''s health check; only plain http'
            cand --kubelet-metrics 'The kubelet''s metrics: an http URL, a file, or `-` for stdin'
            cand --kubelet-version 'Release of the kubelet whose relist is estimated [default: what the running kubelet''s metrics say, else the newest known]'
            cand --runtime-request-timeout 'The kubelet''s time-out of one call [default: the running kubelet''s, else 2m]'
            cand --threshold 'Age from which on PLEG is not healthy [default: 3m]'
            cand --save 'Write the report as JSON to this file, besides what is printed'
            cand --from 'Show a saved report instead of making one'
            cand --stacks 'Where a goroutine dump comes from when something is silent: `auto` (what the runtime gives without a signal), `never`, a file or `unix://SOCKET`'
            cand --proc 'The node''s process table [default: /proc]'
            cand --state 'Remember here what hung, so that the next run asks for that alone; with --npd what is likely counts from the second run on, and what is well again from the second on'
            cand --fail-on 'Which findings make the exit status 1'
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --deep 'Take second samples everywhere'
            cand --probe-shims 'Ask `ContainerStats` of every running container too: the only read that shows a shim which no longer answers'
            cand --npd 'One line of at most 80 bytes, for node-problem-detector'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;relist'= {
            cand --inspect 'Whether to make the kubelet''s status calls too, for every pod'
            cand --concurrency 'How many pods to ask about at once'
            cand --save 'Write the whole report as JSON to this file, besides what is printed'
            cand -n 'Show only pods of this namespace'
            cand --namespace 'Show only pods of this namespace'
            cand --pod 'Show only the pod with this name or UID'
            cand --state 'Show only containers in this state'
            cand --sort-by 'Order of the rows [default: the kubelet''s]'
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --serial 'Ask about one pod after the other, as the kubelet does'
            cand --stream-lists 'List through the runtime''s streaming RPCs (CRI 1.36) instead of the kubelet''s default ones'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;watch'= {
            cand --mode 'Whether to relist, to read the runtime''s events as the kubelet''s evented PLEG does, or both to compare them'
            cand --period 'Pause between the end of a relist and the start of the next [default: 1s; 300s in evented mode]'
            cand --threshold 'Age from which on PLEG is not healthy [default: 3m; 10m in evented mode]'
            cand --count 'End after this many relists, failed ones included'
            cand --for 'End after this time'
            cand --until-slow 'End with exit status 1 as soon as a relist, or one call of it, takes longer than this'
            cand --log 'Append the JSON lines to this file too'
            cand --retries 'Give the event stream up after it has ended this many times'
            cand --max-stream 'Close the event stream after this time and open it again, which is no failure'
            cand --metrics-listen 'Serve the kubelet''s PLEG metrics over HTTP on this address, at `/metrics`'
            cand --kubelet-version 'Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: the newest known]'
            cand --speed 'How fast a capture is played: so many times as fast as it was, or `max`'
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --until-unhealthy 'End with exit status 1 as soon as PLEG is not healthy'
            cand --diagnose 'Say in one line what holds PLEG up, while a call is silent for 5s or a relist takes more than 10s'
            cand --initial 'Show the events of the first relist in the table too'
            cand --no-inspect 'Leave out the status calls that the kubelet makes for changed pods'
            cand --steal-events 'Read the event stream even where that takes events away from the kubelet'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;diff'= {
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --force 'Compare reports of two different nodes'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;nodes'= {
            cand --kubeconfig 'The kubeconfig [default: `$KUBECONFIG`, ~/.kube/config, the pod''s own account]'
            cand --context 'A context of the kubeconfig [default: its current one]'
            cand -l 'Only nodes with these labels, as kubectl takes them'
            cand --selector 'Only nodes with these labels, as kubectl takes them'
            cand --concurrency 'Nodes that are asked at a time'
            cand --interval 'Pause between two looks with --watch'
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -w 'Look again and again until Ctrl-C; from the second look on relists are those since the one before'
            cand --watch 'Look again and again until Ctrl-C; from the second look on relists are those since the one before'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;record'= {
            cand --max-size 'Never take more than this on the disk, pinned incidents included'
            cand --max-age 'Give up what is older than this and belongs to no incident'
            cand --period 'Pause between the end of a relist and the start of the next'
            cand --slow 'A call or a relist beyond this opens an incident, as one that fails does'
            cand --threshold 'Age of the last relist from which on PLEG is not healthy'
            cand --before 'How much before an incident is pinned'
            cand --after 'How much after an incident is pinned'
            cand --keep 'How many incidents are pinned'
            cand --count 'End after this many relists, failed ones included'
            cand --for 'End after this time'
            cand --kubelet-version 'Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: this node''s, else the newest known]'
            cand --metrics-listen 'Serve the kubelet''s PLEG metrics and the recorder''s own over HTTP on this address, at `/metrics`'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --no-host 'Leave out pressure and processes of the node'
            cand --no-diagnose 'Leave out the diagnosis that is made while an incident lasts'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'plegctl;capture'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
            cand ls 'Say what is in a capture: from when to when, and which incidents'
            cand export 'Write a part of a capture to one file, which is a capture like any other'
            cand report 'Tell the story: relist latency, age against the threshold, incidents, who did what'
            cand check 'Read every entry and every answer, and say what is gone; exit status 1 if anything is'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'plegctl;capture;ls'= {
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;capture;export'= {
            cand --incident 'Only what was pinned for this incident'
            cand --from 'Nothing before: RFC 3339, `HH:MM:SS`, or `+90s` from the start'
            cand --to 'Nothing after'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --anonymise 'Replace every name: pods, namespaces, containers, images, labels, addresses, the node'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'plegctl;capture;report'= {
            cand --incident 'Only what was pinned for this incident'
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;capture;check'= {
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;capture;help'= {
            cand ls 'Say what is in a capture: from when to when, and which incidents'
            cand export 'Write a part of a capture to one file, which is a capture like any other'
            cand report 'Tell the story: relist latency, age against the threshold, incidents, who did what'
            cand check 'Read every entry and every answer, and say what is gone; exit status 1 if anything is'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'plegctl;capture;help;ls'= {
        }
        &'plegctl;capture;help;export'= {
        }
        &'plegctl;capture;help;report'= {
        }
        &'plegctl;capture;help;check'= {
        }
        &'plegctl;capture;help;help'= {
        }
        &'plegctl;explain'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'plegctl;stacks'= {
            cand --signatures 'More signatures, in a file: see docs/stacks.md'
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --live 'Take names, children and files from the process itself, though the dump does not say that it is of this node'
            cand --no-live 'Take nothing from a process, only from the dump'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;static-pods'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
            cand lint 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'plegctl;static-pods;lint'= {
            cand --node-name 'Name of the node, which every static pod gets as a suffix [default: this node''s]'
            cand --kubelet-version 'Release of the kubelet whose rules count, such as 1.31 [default: the newest known]'
            cand --as 'The directory under which the kubelet reads the files, where it is not PATH itself; pods'' UIDs depend on it'
            cand --upgrade-to 'Say too what an upgrade to this release restarts and refuses, such as 1.36'
            cand --fail-on 'What makes the exit status 1'
            cand --ignore 'Leave out this check, such as SP053; may be given more than once'
            cand --output-file 'Write this format to a file too, such as sarif=lint.sarif; may be given more than once'
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --no-cri 'Do not compare with what the runtime runs'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;static-pods;help'= {
            cand lint 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'plegctl;static-pods;help;lint'= {
        }
        &'plegctl;static-pods;help;help'= {
        }
        &'plegctl;pods'= {
            cand --manifests 'A directory or a file of manifests; sources that are given are the only ones [default: the running kubelet''s]'
            cand --manifest-url 'A URL that serves a manifest or a list of them'
            cand --manifest-url-header 'A header to send there, as KEY:VALUE; may be given more than once'
            cand --api-pods 'The API server''s pods of this node, as `kubectl get pods -A --field-selector spec.nodeName=N -o json` prints them; `-` for stdin, where each document is the whole state'
            cand --node-name 'Name of the node [default: this node''s]'
            cand --kubelet-version 'Release of the kubelet whose rules and UIDs count, such as 1.31 [default: the newest known]'
            cand --file-check-frequency 'How often the manifests are read again, besides what inotify tells'
            cand --http-check-frequency 'How often the URL is asked'
            cand -n 'Show only pods of this namespace'
            cand --namespace 'Show only pods of this namespace'
            cand -o 'How to print'
            cand --output 'How to print'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand --no-cri 'Do not ask the runtime'
            cand -w 'Follow: each update as the kubelet''s sync loop gets it, then what the runtime makes of it'
            cand --watch 'Follow: each update as the kubelet''s sync loop gets it, then what the runtime makes of it'
            cand -A 'Show the pods of all namespaces, as is the default'
            cand --all-namespaces 'Show the pods of all namespaces, as is the default'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'plegctl;sim'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
            cand list 'Name every scenario'
            cand describe 'Say what is wrong in a scenario, what a kubelet would show and what to try'
            cand serve 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'plegctl;sim;list'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'plegctl;sim;describe'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'plegctl;sim;serve'= {
            cand --listen 'Socket to make, with or without `unix://`; nothing may be there yet'
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'plegctl;sim;help'= {
            cand list 'Name every scenario'
            cand describe 'Say what is wrong in a scenario, what a kubelet would show and what to try'
            cand serve 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'plegctl;sim;help;list'= {
        }
        &'plegctl;sim;help;describe'= {
        }
        &'plegctl;sim;help;serve'= {
        }
        &'plegctl;sim;help;help'= {
        }
        &'plegctl;completions'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'plegctl;man'= {
            cand -r 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand --runtime-endpoint 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]'
            cand -c 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --config 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]'
            cand --host-root 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]'
            cand --timeout 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]'
            cand --color 'Whether to colour what goes to a terminal'
            cand -q 'Leave out progress and notes'
            cand --quiet 'Leave out progress and notes'
            cand -v 'Say more: which runtime was chosen and why; twice for every call'
            cand --verbose 'Say more: which runtime was chosen and why; twice for every call'
            cand --no-headers 'Leave out table headers'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'plegctl;help'= {
            cand health 'The verdict and the culprit: which call, which pod, which container holds PLEG up, and what to do first'
            cand relist 'One relist: every pod and container as the kubelet would see them now, each call timed'
            cand watch 'The kubelet''s PLEG, live: every event it would have seen, every relist timed'
            cand diff 'What the kubelet''s PLEG would have emitted between two relists, and what it would not have noticed'
            cand nodes 'The PLEG of every node of the cluster, the worst first: age of the last relist, its durations, events lost'
            cand record 'The flight recorder: keeps what every call to the runtime came to, so that any question can be asked afterwards'
            cand capture 'What the flight recorder kept: list it, check it, cut a part out of it, report on it'
            cand explain 'What a finding''s id means: D of `health`, ST of `stacks`, SP of `static-pods lint`. Without an id: the list'
            cand stacks 'Who waits for whom inside containerd, its shim, CRI-O or a kubelet, told from a goroutine dump'
            cand static-pods 'Static pods: what the kubelet of this node runs from files'
            cand pods 'What the kubelet is told to run, from every source, and what became of it'
            cand sim 'Simulated runtimes: what there is, what each teaches, and one on a real socket'
            cand completions 'Print the completion script of a shell'
            cand man 'Write a man page for every command'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'plegctl;help;health'= {
        }
        &'plegctl;help;relist'= {
        }
        &'plegctl;help;watch'= {
        }
        &'plegctl;help;diff'= {
        }
        &'plegctl;help;nodes'= {
        }
        &'plegctl;help;record'= {
        }
        &'plegctl;help;capture'= {
            cand ls 'Say what is in a capture: from when to when, and which incidents'
            cand export 'Write a part of a capture to one file, which is a capture like any other'
            cand report 'Tell the story: relist latency, age against the threshold, incidents, who did what'
            cand check 'Read every entry and every answer, and say what is gone; exit status 1 if anything is'
        }
        &'plegctl;help;capture;ls'= {
        }
        &'plegctl;help;capture;export'= {
        }
        &'plegctl;help;capture;report'= {
        }
        &'plegctl;help;capture;check'= {
        }
        &'plegctl;help;explain'= {
        }
        &'plegctl;help;stacks'= {
        }
        &'plegctl;help;static-pods'= {
            cand lint 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs'
        }
        &'plegctl;help;static-pods;lint'= {
        }
        &'plegctl;help;pods'= {
        }
        &'plegctl;help;sim'= {
            cand list 'Name every scenario'
            cand describe 'Say what is wrong in a scenario, what a kubelet would show and what to try'
            cand serve 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM'
        }
        &'plegctl;help;sim;list'= {
        }
        &'plegctl;help;sim;describe'= {
        }
        &'plegctl;help;sim;serve'= {
        }
        &'plegctl;help;completions'= {
        }
        &'plegctl;help;man'= {
        }
        &'plegctl;help;help'= {
        }
    ]
    $completions[$command]
}
