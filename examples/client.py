"""The Python client at work: make a job, run it now, wait for it, look at what it came to.

    python examples/client.py

asks the server that `ONCUE_URL` and `ONCUE_API_KEY` name, or one that was started here by `oncue up`.
"""

from __future__ import annotations

from oncue.client import Client, Invalid


def main() -> None:
    with Client() as client:
        job = client.jobs.create(
            task="hello",
            name="greeting",
            schedule={"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"},
            payload={"name": "you"},
            tags=["example"],
        )
        print(f"made {job.job_id}; it runs next at {job.next_run_at}")

        run = job.run_now().wait(timeout="1m")
        print(f"run {run.run_id} {run.status}: {run.result}")
        for line in run.log_lines():
            print(line)

        try:
            client.jobs.create(task="hello", payload={"nmae": "you"})
        except Invalid as refused:
            for problem in refused.errors:
                print(f"refused: {problem.path}: {problem.message}")

        job.cancel()
        print("cancelled it again")


if __name__ == "__main__":
    main()
