"""The paper, reproduced: its tables and figures as studies, how they are run, kept and shown."""
