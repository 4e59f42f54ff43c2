module botpool-agent

go 1.22
