from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('hosts', '0002_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='generation',
            name='verified_whole_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='last read from the first file to the last'),
        ),
        migrations.AddField(
            model_name='generation',
            name='whole_cursor',
            field=models.TextField(blank=True, default='', help_text='How far it was read without a fault since damage was found.'),
        ),
        migrations.AddField(
            model_name='generation',
            name='damage_answered_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='a later one was read whole since damage was found'),
        ),
    ]
