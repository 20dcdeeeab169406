// It makes no workflow.
