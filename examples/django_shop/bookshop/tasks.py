import django

from bookshop.models import Order

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task(queue_name="mail")
def send_receipt(order_id: int) -> str:
    """Instead of sending a mail, it notes that one was sent."""
    order = Order.objects.get(id=order_id)
    order.receipt_sent = True
    order.save()
    return order.email


@task(takes_context=True)
async def count_orders(context, least: int = 0) -> int:
    context.run.progress(0, 1)
    return max(least, await Order.objects.acount())
