module botpool-agent

go 1.21
