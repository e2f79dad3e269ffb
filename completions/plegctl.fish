complete --keep-order --exclusive --command plegctl --arguments "(PLEGCTL_COMPLETE=fish plegctl -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
